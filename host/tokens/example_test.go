package tokens_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/agenthost/agenthost/host/tokens"
)

func Example() {
	counter, err := tokens.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	name, exact := tokens.EncodingForModel("gpt-4o-mini")
	n, err := counter.Count(context.Background(), name, "Where is my order?")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(name, exact, n)
	// Output: o200k_base true 5
}

// A model whose vocabulary is not public is counted by approximation.
func ExampleApproximate() {
	const text = "Where is my order?"
	name, exact := tokens.EncodingForModel("claude-sonnet-4")
	if !exact {
		fmt.Println("about", tokens.Approximate(name, tokens.UTF16Len(text)))
	}
	// Output: about 5
}

func ExampleEncoding_Append() {
	counter, err := tokens.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	encoding, err := counter.Encoding(tokens.Cl100kBase)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(encoding.Append(nil, "hello world"))
	// Output: [15339 1917]
}

// A wordCounter is a tokenizer of one's own.
type wordCounter struct{}

func (wordCounter) CountTokens(_ context.Context, text string) (int, error) {
	return len(strings.Fields(text)), nil
}

func ExampleOptions() {
	counter, err := tokens.New(&tokens.Options{
		Tokenizers: map[string]tokens.Tokenizer{"words": wordCounter{}},
	})
	if err != nil {
		log.Fatal(err)
	}
	n, err := counter.Count(context.Background(), "words", "Where is my order?")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n)
	// Output: 4
}
