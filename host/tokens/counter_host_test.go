package tokens_test

import (
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/tokens"
)

// A Counter is what a host counts with; the package does not import host to say
// so.
var _ host.TokenCounter = (*tokens.Counter)(nil)

func TestCounterCountsForModels(t *testing.T) {
	c, err := tokens.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	name, exact := c.EncodingFor("gpt-4")
	if name != "cl100k_base" || !exact {
		t.Errorf("EncodingFor(gpt-4) = %q, %t, want cl100k_base, true", name, exact)
	}
	if _, exact := c.EncodingFor("somebody's own"); exact {
		t.Error("EncodingFor of an unknown model says that its tables are exact")
	}
	n, err := c.CountTokens(t.Context(), name, []byte("hello world"))
	if err != nil || n != 2 {
		t.Errorf("CountTokens = %d, %v, want 2, nil", n, err)
	}
	if _, err := c.CountTokens(t.Context(), "nonsense", nil); err == nil {
		t.Error("CountTokens in an unknown encoding succeeds")
	}
}
