package keys_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/keys"
	"github.com/agenthost/agenthost/host/kv"
)

func Example() {
	ctx := context.Background()
	store := keys.New(kv.NewMemory(), nil) // a store of a database, in a server
	defer func() { _ = store.Close() }()

	credential, key, err := store.Of("acme").Create(ctx, &keys.Spec{Name: "backend", Scopes: []string{"runs:write"}})
	if err != nil {
		log.Fatal(err)
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := store.Authenticate(r)
		if err == nil {
			err = who.Require("runs:write")
		}
		if err != nil {
			http.Error(w, err.Error(), fault.CodeOf(err).HTTPStatus())
			return
		}
		fmt.Fprintf(w, "hello, %s", who.Tenant)
	})
	ask := func(credential string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Bearer "+credential)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Body)
	}
	ask(credential)

	next, _, err := store.Of("acme").Rotate(ctx, key.ID, time.Hour) // both are valid for an hour
	if err != nil {
		log.Fatal(err)
	}
	ask(credential)
	ask(next)
	if err := store.Of("acme").Revoke(ctx, key.ID); err != nil {
		log.Fatal(err)
	}
	ask(next)
	// Output:
	// 200 hello, acme
	// 200 hello, acme
	// 200 hello, acme
	// 401 the credential is not valid; send a key as Authorization: Bearer ah_live_...; keys expire, and can be revoked
}
