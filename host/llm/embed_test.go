package llm_test

import (
	"math"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
)

func TestEmbeddingsAreCheckedAgainstTheirRequest(t *testing.T) {
	req := &llm.EmbedRequest{Texts: []string{"abc", "d"}}
	good := &llm.Embeddings{Model: "m", Vectors: [][]float32{{1}, {2}}}
	if err := good.Check(req); err != nil || good.Usage.InputTokens != 3 || !good.Usage.Estimated {
		t.Errorf("good ones: %v, usage %+v", err, good.Usage)
	}
	for name, c := range map[string]struct {
		vectors [][]float32
		says    string
	}{
		"too few":        {[][]float32{{1}}, "1 vectors for 2 texts"},
		"of two lengths": {[][]float32{{1}, {1, 2}}, "vectors of 1 and 2 dimensions"},
		"empty":          {[][]float32{{}, {}}, "a vector of 0 dimensions"},
		"too long":       {[][]float32{make([]float32, llm.MaxDimensions+1), {1}}, "4097 dimensions"},
		"not a number":   {[][]float32{{1}, {float32(math.NaN())}}, "a number that is none"},
		"infinite":       {[][]float32{{1}, {float32(math.Inf(1))}}, "a number that is none"},
	} {
		err := (&llm.Embeddings{Model: "m", Vectors: c.vectors}).Check(req)
		if fault.CodeOf(err) != fault.Unavailable || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want it to say %q", name, err, c.says)
		}
	}
}

func TestEmbedRequestsAreBounded(t *testing.T) {
	for name, texts := range map[string][]string{
		"no texts": nil, "an empty one": {"a", ""}, "too many": make([]string, llm.MaxEmbedTexts+1), "too long": {strings.Repeat("a", llm.MaxEmbedBytes+1)},
	} {
		if err := (&llm.EmbedRequest{Texts: texts}).Check(); fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}
