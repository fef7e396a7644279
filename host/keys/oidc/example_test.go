package oidc_test

import (
	"fmt"
	"log"

	"github.com/agenthost/agenthost/host/keys"
	"github.com/agenthost/agenthost/host/keys/oidc"
	"github.com/agenthost/agenthost/host/kv"
)

func Example() {
	verifier, err := oidc.New(&oidc.Config{
		Issuer: "https://login.example.com", Audience: "agenthost", TenantClaim: "org_id", Scopes: []string{"runs:write"},
	})
	if err != nil {
		log.Fatal(err)
	}
	store := keys.New(kv.NewMemory(), &keys.Options{Tokens: verifier})
	fmt.Println(store.Close())
	// Output: <nil>
}
