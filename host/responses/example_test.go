package responses_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/responses"
)

func ExampleStore() {
	driver := kv.NewMemory()
	defer driver.Close()
	ctx, store := context.Background(), responses.New(driver)
	err := store.Put(ctx, "acme", &responses.Record{ID: "resp_1", Thread: "orders", Ended: true, Response: json.RawMessage(`{"id":"resp_1"}`)})
	fmt.Println(err)
	r, err := store.Get(ctx, "acme", "resp_1")
	fmt.Println(string(r.Response), err)
	_, err = store.Get(ctx, "umbrella", "resp_1")
	fmt.Println(err)
	// Output:
	// <nil>
	// {"id":"resp_1"} <nil>
	// there is no response "resp_1"; it was deleted, or made with store: false
}
