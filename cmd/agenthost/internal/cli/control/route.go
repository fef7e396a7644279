package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host"
)

// Route is a row of the table of local routes.
type Route struct {
	Name    string `json:"name"` // the path is /local/NAME
	Summary string `json:"summary"`

	handle func(ctx context.Context, body []byte) (any, error)
}

// Events is the result of a route that streams: each event is sent when it happens. When
// the client hangs up, or reads nothing for IdleTime, the context of the route's function
// ends and so does the loop over the events.
type Events iter.Seq2[json.RawMessage, error]

// Do returns the route that decodes the body of a request for fn, which many goroutines
// call at once. Its result is sent as JSON, or as it comes if it is [Events]. Code
// invalid_argument if the body does not fit.
func Do[A, R any](name, summary string, fn func(context.Context, A) (R, error)) Route {
	return Route{name, summary, func(ctx context.Context, body []byte) (any, error) {
		var args A
		if err := decode(body, &args); err != nil {
			return nil, err
		}
		return fn(ctx, args)
	}}
}

// decode reads the body of a request; an empty one has no arguments.
func decode(body []byte, into any) error {
	if len(body) == 0 {
		return nil
	}
	if !utf8.Valid(body) { // encoding/json would put U+FFFD in its place
		return host.Errorf(host.InvalidArgument, "the body is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil && !errors.Is(end(d), io.EOF) {
		err = errors.New("something follows the JSON")
	}
	if err != nil {
		return host.Errorf(host.InvalidArgument, "read the request: %w", err).WithHint("is the client of another version of agenthost?")
	}
	return nil
}

// end returns io.EOF if nothing follows.
func end(d *json.Decoder) error {
	_, err := d.Token()
	return err
}
