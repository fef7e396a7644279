package openaimodel

import (
	"bytes"
	"io"
	"net/http"

	openai "github.com/sashabaranov/go-openai"

	"github.com/agenthost/agenthost/host/internal/modelhttp"
)

// exchange stands between go-openai's client and the network: go-openai writes
// the request and reads the chunks, the exchange sees the status, the headers,
// the silences and the bounds, which go-openai does not pass on.
type exchange struct {
	*modelhttp.Exchange
	done bool   // [DONE] came
	out  []byte // what go-openai's reader has not taken yet
}

var _ openai.HTTPDoer = (*exchange)(nil)

// emptyLinesLimit is go-openai's count of lines that it does not understand;
// none reach it.
const emptyLinesLimit = 1 << 20

var (
	dataField   = []byte("data:")
	errorObject = []byte(`{"error":`)
	doneMark    = []byte("[DONE]")
)

// open sends the request.
func (x *exchange) open(s *modelhttp.Server, wire openai.ChatCompletionRequest) (*openai.ChatCompletionStream, error) {
	config := openai.DefaultConfig(s.Key())
	config.BaseURL, config.HTTPClient, config.EmptyMessagesLimit = s.BaseURL(), x, emptyLinesLimit
	return openai.NewClientWithConfig(config).CreateChatCompletionStream(x.Context(), wire)
}

// Do implements openai.HTTPDoer.
func (x *exchange) Do(req *http.Request) (*http.Response, error) {
	resp, err := x.Exchange.Do(req)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{x, resp.Body}
	}
	return resp, err
}

// Read implements io.Reader: the body as lines that go-openai's stream reader
// understands, "data: {...}" and "data: [DONE]", and nothing else. That reader by
// itself reads lines of any length, takes a body that is not a stream for the end
// of one, loses errors that follow a comment, and ends alike with and without
// [DONE].
func (x *exchange) Read(p []byte) (int, error) {
	if len(x.out) == 0 {
		data, err := x.Events.Next()
		if err != nil {
			return 0, err
		}
		x.pass(data)
	}
	n := copy(p, x.out)
	x.out = x.out[n:]
	return n, nil
}

func (x *exchange) pass(data []byte) {
	x.done = bytes.Equal(data, doneMark)
	x.out = append(x.out[:0], dataField...)
	// The blank keeps go-openai from swallowing an error: it looks for the very
	// bytes {"error": and then waits for another line.
	if bytes.HasPrefix(data, errorObject) {
		x.out, data = append(x.out, "{ "...), data[1:]
	}
	x.out = append(append(x.out, data...), '\n')
}

// verdict judges an answer whose stream has ended.
func (x *exchange) verdict(s *modelhttp.Server, got *answer) *modelhttp.Fault {
	switch {
	case got.gaveUp():
		return s.Upstream("gave up its answer (finish reason %q)", got.finish)
	case got.finish == "" && !x.done:
		return x.Ended()
	case !got.chosen:
		return s.Upstream("sent no answer")
	}
	return nil
}
