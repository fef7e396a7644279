package geminimodel_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/geminimodel"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

func Example() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := os.ReadFile("testdata/answer.sse") // in place of the service
		_, _ = w.Write(b)
	}))
	defer service.Close()
	model, err := geminimodel.New("gemini-2.5-flash", &geminimodel.Options{Server: modelhttp.Options{BaseURL: service.URL}}) // and APIKey
	if err != nil {
		fmt.Println(err)
		return
	}
	defer model.CloseIdleConnections()

	req := &llm.Request{Messages: []*host.Message{host.UserText("Where is my order?")}}
	for chunk, err := range model.Generate(context.Background(), req) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if chunk.Response != nil {
			fmt.Println(chunk.Response.FinishReason, chunk.Response.Usage.Total(), "tokens")
			continue
		}
		fmt.Print(chunk.Text, "|")
	}
	// Output:
	// It is |shipped.|stop 92 tokens
}
