package tokens_test

import (
	"sync"

	"github.com/agenthost/agenthost/host/tokens"
	"github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"
	"pgregory.net/rapid"
)

// vocabularies are the encodings with a vocabulary of their own.
var vocabularies = []string{tokens.O200kBase, tokens.Cl100kBase, tokens.P50kBase, tokens.R50kBase}

// sharedCounter is one Counter for all tests that do not look at loading.
var sharedCounter = sync.OnceValues(func() (*tokens.Counter, error) { return tokens.New(nil) })

// encoding returns an encoding of sharedCounter.
func encoding(tb rapid.TB, name string) *tokens.Encoding {
	tb.Helper()
	c, err := sharedCounter()
	if err != nil {
		tb.Fatalf("New(nil): %v", err)
	}
	e, err := c.Encoding(name)
	if err != nil {
		tb.Fatalf("Encoding(%q): %v", name, err)
	}
	return e
}

// An oracleSet holds tiktoken-go's tokenizers, which every count must equal.
type oracleSet struct {
	mu     sync.Mutex
	loaded map[string]*tiktoken.Tiktoken
}

var oracles = oracleSet{loaded: map[string]*tiktoken.Tiktoken{}}

// oracle returns the tokenizer of a name, fed from the embedded vocabularies.
func oracle(tb rapid.TB, name string) *tiktoken.Tiktoken {
	tb.Helper()
	oracles.mu.Lock()
	defer oracles.mu.Unlock()
	if t, ok := oracles.loaded[name]; ok {
		return t
	}
	tiktoken.SetBpeLoader(loader.NewOfflineLoader())
	t, err := tiktoken.GetEncoding(name)
	if err != nil {
		tb.Fatalf("load tiktoken-go's %q: %v", name, err)
	}
	oracles.loaded[name] = t
	return t
}
