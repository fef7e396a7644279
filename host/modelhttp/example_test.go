package modelhttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// words is a model behind a protocol of its own: the server streams {"word":"..."}.
type words struct{ server *modelhttp.Server }

func (m *words) Name() string { return m.server.Model() }

func (m *words) Generate(ctx context.Context, _ *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) { m.server.Ask(ctx, yield, m.try) }
}

// try sends the request once, and passes the words on.
func (m *words) try(c *modelhttp.Call, x *modelhttp.Exchange) *modelhttp.Fault {
	return x.Relay(c, "/words", modelhttp.Body{[]byte(`{"say":"hello"}`)}, m.server.Header(), &sentence{})
}

// sentence is an answer of that protocol. It is complete after any word.
type sentence struct{ text string }

func (s *sentence) Add(event []byte) ([]llm.Chunk, error) {
	var piece struct{ Word string }
	if err := json.Unmarshal(event, &piece); err != nil {
		return nil, err
	}
	s.text += piece.Word
	return []llm.Chunk{{Text: piece.Word}}, nil
}

func (s *sentence) Complete() bool { return s.text != "" }

func (s *sentence) Over() bool { return false } // the stream ends

func (s *sentence) Response(*modelhttp.Server) (*llm.Response, *modelhttp.Fault) {
	return &llm.Response{FinishReason: chat.FinishStop, Parts: []host.Part{&host.Text{Text: s.text}}}, nil
}

// canned answers each request with the same events.
type canned string

func (c canned) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: io.NopCloser(strings.NewReader(string(c)))}, nil
}

// A model of another protocol holds only that: what a request looks like and what an
// answer means.
func Example() {
	server, err := modelhttp.New("parrot", modelhttp.Protocol{BaseURL: "https://words.example", KeyHeader: "X-Key", Answer: "a stream of words"},
		modelhttp.Options{APIKey: "k-123456", HTTPClient: &http.Client{Transport: canned("data: {\"word\":\"hello\"}\n\ndata: {\"word\":\"world\"}\n\n")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for chunk, err := range (&words{server: server}).Generate(context.Background(), &llm.Request{}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if chunk.Response != nil {
			fmt.Println(chunk.Response.FinishReason)
			continue
		}
		fmt.Println(chunk.Text)
	}
	// Output:
	// hello
	// world
	// stop
}
