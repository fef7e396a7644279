package llm_test

import (
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
)

func TestPromptCacheIsReadOutOfTheParameters(t *testing.T) {
	p, err := llm.EncodeParameters(map[string]any{"top_k": 7, "prompt_cache": map[string]any{"long": true, "key": "support"}})
	if err != nil {
		t.Fatal(err)
	}
	c, rest, err := p.PromptCache()
	if err != nil || c == nil || *c != (llm.PromptCache{Long: true, Key: "support"}) || len(rest) != 1 || len(p) != 2 {
		t.Errorf("PromptCache of %v: %+v, rest %v, %v", p, c, rest, err)
	}
	if c, rest, err := rest.PromptCache(); c != nil || len(rest) != 1 || err != nil {
		t.Errorf("PromptCache without one: %v, %v, %v", c, rest, err)
	}
	if p, err := llm.EncodeParameters(map[string]any{"prompt_cache": nil}); err != nil || len(p.With(nil)) > 0 {
		t.Errorf("one that is removed: %v, %v", p, err)
	}
}

func TestPromptCachesThatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		value any
		says  string
	}{
		"a boolean":         {true, "not an object"},
		"an unknown member": {map[string]any{"ttl": "1h"}, `a member "ttl"`},
		"another type":      {map[string]any{"long": "yes"}, "cannot unmarshal string"},
		"a long key":        {map[string]any{"key": strings.Repeat("k", 65)}, "more than 64 bytes"},
	} {
		_, err := llm.EncodeParameters(map[string]any{"prompt_cache": c.value})
		if fault.CodeOf(err) != fault.InvalidArgument || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want it to say %q", name, err, c.says)
		}
	}
}
