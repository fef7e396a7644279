package httpapi

import (
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host"
)

// query is the query of a request: parameters that its route has, each at most once.
type query struct{ values url.Values }

// readQuery returns the query of a request, and refuses parameters that the route does not
// have, or that come twice. A route for unknown paths reads none.
func readQuery(of *route, r *http.Request) (query, error) {
	raw := r.URL.RawQuery
	if len(raw) > maxQueryBytes {
		return query{}, &statusError{http.StatusRequestURITooLong, host.Errorf(host.InvalidArgument, "the query is more than %d bytes", maxQueryBytes)}
	}
	if raw == "" || of.method == "" {
		return query{}, nil
	}
	values, err := url.ParseQuery(raw) // url.URL.Query would leave out what it cannot read
	if err != nil {
		return query{}, host.Errorf(host.InvalidArgument, "the query cannot be read").WithHint("escape its values by percent signs")
	}
	for name, list := range values {
		switch {
		case !of.known(name):
			return query{}, host.Errorf(host.InvalidArgument, "%s has no parameter %.60q", of.path, name).WithHint("GET /v1/openapi.json lists the parameters")
		case len(list) > 1:
			return query{}, host.Errorf(host.InvalidArgument, "parameter %q is given %d times", name, len(list))
		case !utf8.ValidString(list[0]):
			return query{}, host.Errorf(host.InvalidArgument, "parameter %q is not UTF-8", name)
		}
	}
	return query{values}, nil
}

// text returns a parameter; "" if it is absent.
func (q query) text(name string) string { return q.values.Get(name) }

// integer returns a parameter that is a number; 0 if it is absent.
func (q query) integer(name string) (int, error) {
	text := q.text(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, host.Errorf(host.InvalidArgument, "parameter %q is not a number: %.60q", name, text)
	}
	return n, nil
}

// boolean returns a parameter that is true or false; false if it is absent.
func (q query) boolean(name string) (bool, error) {
	switch text := q.text(name); text {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, host.Errorf(host.InvalidArgument, "parameter %q is neither true nor false: %.60q", name, text)
	}
}

// time returns a parameter that is a time; the zero time if it is absent.
func (q query) time(name string) (t time.Time, err error) {
	text := q.text(name)
	if text == "" {
		return t, nil
	}
	if t, err = time.Parse(time.RFC3339, text); err != nil {
		return t, host.Errorf(host.InvalidArgument, "parameter %q is no time: %.60q", name, text).WithHint("write it as 2026-01-31T00:00:00Z")
	}
	return t, nil
}

// limit returns the limit of a page; most if the request names none.
func (q query) limit(most int) (int, error) {
	n, err := q.integer("limit")
	if err == nil && n > most {
		err = host.Errorf(host.InvalidArgument, "the limit is %d, more than %d", n, most)
	}
	if n == 0 {
		n = most
	}
	return n, err
}
