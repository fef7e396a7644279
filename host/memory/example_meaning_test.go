package memory_test

import (
	"context"
	"fmt"
	"log"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/memory"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/openaimodel"
	"github.com/agenthost/agenthost/host/scriptedmodel"
)

// With an embedder a search finds more than the words of its query. Here a server that knows
// texts by their spelling stands for a model of embeddings.
func ExampleOptions_embedder() {
	ctx := context.Background()
	server, err := scriptedmodel.Start(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	embedder, err := openaimodel.NewEmbedder("text-embedding-3-small", &openaimodel.EmbedderOptions{Server: modelhttp.Options{BaseURL: server.BaseURL()}})
	if err != nil {
		log.Fatal(err)
	}
	defer embedder.CloseIdleConnections()
	store, err := memory.New(kv.NewMemory(), &memory.Options{Embedder: embedder})
	if err != nil {
		log.Fatal(err)
	}
	scope := memory.Scope{Tenant: "acme", User: "ada"}
	for _, text := range []string{"Ada has an allergy to almonds.", "The weather in March is wet."} {
		if _, err := store.Add(ctx, scope, text, nil); err != nil {
			log.Fatal(err)
		}
	}
	hits, err := store.Search(ctx, scope, "alergy", &memory.SearchOptions{
		Degraded: func(reason error) { fmt.Println("by words alone:", reason) },
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, h := range hits {
		fmt.Println(h.Text)
	}
	// Output: Ada has an allergy to almonds.
}
