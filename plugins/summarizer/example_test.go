package summarizer_test

import (
	"fmt"

	"github.com/agenthost/agenthost/plugins/summarizer"
)

// A program that takes configurations from people can say what is wrong with one
// before anything runs.
func ExampleCheck() {
	fmt.Println(summarizer.Check(`{"target":20}`))
	fmt.Println(summarizer.Check(`{"target":20,"treshold":5}`))
	// Output:
	// <nil>
	// invalid_argument: configuration of summarizer: the key "treshold" is not one of target, threshold, prompt, model and maxTokens
}
