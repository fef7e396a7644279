package sigstore_test

import (
	"crypto/sha256"
	"fmt"
	"log"
	"testing"

	"github.com/agenthost/agenthost/host/plugin/share"
	"github.com/agenthost/agenthost/host/plugin/sigstore"
	"github.com/agenthost/agenthost/internal/sigstoretest"
)

// A policy trusts what one workflow or person has signed.
func Example() {
	instance := sigstoretest.New(&testing.T{}) // in the place of https://sigstore.dev
	module := []byte("a module")
	bundle := instance.Sign(&testing.T{}, "release@acme.example", "https://accounts.example", module)

	release, err := sigstore.New(share.Identity{
		Issuer: "https://accounts.example", SubjectPattern: `.*@acme\.example`, Root: instance.Root(&testing.T{}),
	})
	if err != nil {
		log.Fatal(err)
	}
	signer, err := release.VerifyBundle(bundle, fmt.Sprintf("sha256:%x", sha256.Sum256(module)))
	fmt.Println(signer, err)
	_, err = release.VerifyBundle(bundle, fmt.Sprintf("sha256:%x", sha256.Sum256([]byte("another module"))))
	fmt.Println(err != nil)
	// Output:
	// release@acme.example (https://accounts.example) <nil>
	// true
}
