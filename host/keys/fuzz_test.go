package keys_test

import (
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/keys"
	"github.com/agenthost/agenthost/host/kv"
)

// FuzzCredential: a text that is not the one of a key is never valid, and a key has one
// text.
func FuzzCredential(f *testing.F) {
	s := keys.New(kv.NewMemory(), nil)
	f.Cleanup(func() { _ = s.Close() })
	good, key, err := s.Of("acme").Create(f.Context(), &keys.Spec{Scopes: []string{"a"}})
	if err != nil {
		f.Fatal(err)
	}
	token, _, err := s.Of("acme").Mint(f.Context(), key.ID, &keys.Token{Thread: "t", Origin: "https://a.example", Scopes: []string{"a"}})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{good, token, "", "ah_", "ah_live_", "ah_admin_" + good[8:], "ah_page_" + good[8:], good[:30], good + "\n", token + "=", strings.ToUpper(good)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if keys.Parses(text) && keys.Rewritten(text) != text {
			t.Errorf("%q is another text of %q", text, keys.Rewritten(text))
		}
		p, err := s.Verify(t.Context(), text)
		if (err == nil) != (text == good || text == token) {
			t.Fatalf("Verify(%q) = %+v, %v", text, p, err)
		}
		if err != nil && fault.CodeOf(err) != fault.Unauthenticated {
			t.Errorf("Verify(%q): %v", text, err)
		}
	})
}
