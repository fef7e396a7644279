// Package checks has clients of OpenAI's API do what agents do for them, as several tenants at
// once, and prints what came of it.
package checks

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

// Model is the agent that answers: its answers follow from the user's last words.
const Model = "desk"

// Check is what a client does. Run fails if the answer is not the one that it has to be.
type Check struct {
	Name string
	Run  func(ctx context.Context) error
}

// Main makes the checks of a client against the host of the first argument, once for each key
// of the others: the keys are of tenants, each of which does everything at the same time as the
// others. A line of the output is a check, with the reason if it failed.
func Main(client string, of func(url, key string) []Check) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, key := range os.Args[2:] {
		all.Go(func() {
			for _, c := range of(os.Args[1], key) {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				err := c.Run(ctx)
				cancel()
				failed := ""
				if err != nil {
					failed = err.Error()
				}
				line, _ := json.Marshal(map[string]string{"check": key + ", " + client + ", " + c.Name, "failed": failed})
				mu.Lock()
				fmt.Println(string(line))
				mu.Unlock()
			}
		})
	}
	all.Wait()
}

// Want returns an error unless both are equal.
func Want(got, want any) error {
	if got != want {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}

// The schemas of the model's structured answer to "count", and of tools without arguments.
var (
	CountSchema = map[string]any{"type": "object", "properties": map[string]any{"n": map[string]any{"type": "integer"}}, "required": []string{"n"}, "additionalProperties": false}
	EmptyObject = map[string]any{"type": "object", "properties": map[string]any{}}
)

// WantCount returns an error unless text is the structured answer.
func WantCount(text string) error {
	var c struct{ N int }
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	return Want(c.N, 7)
}
