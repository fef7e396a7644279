package responsesmodel_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/responsesmodel"
)

// The service keeps the conversation: the second question carries only what is
// new.
func Example() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := os.ReadFile("testdata/stored.sse") // in place of the service
		_, _ = w.Write(b)
	}))
	defer service.Close()
	model, err := responsesmodel.New("gpt-5-mini", &responsesmodel.Options{Server: modelhttp.Options{BaseURL: service.URL}, Store: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer model.CloseIdleConnections()

	conversation := ""
	for _, text := range []string{"Hello.", "And again?"} {
		req := &llm.Request{Messages: []*host.Message{host.UserText(text)}, Conversation: conversation}
		for chunk, err := range model.Generate(context.Background(), req) {
			if err != nil {
				fmt.Println(err)
				return
			}
			if r := chunk.Response; r != nil {
				conversation = r.Conversation
				fmt.Println((&host.Message{Parts: r.Parts}).Text(), conversation)
			}
		}
	}
	// Output:
	// Hello, you. resp_1
	// Hello, you. resp_1
}
