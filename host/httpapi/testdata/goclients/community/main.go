// Command community calls a host with go-openai: community URL KEY...
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	openai "github.com/sashabaranov/go-openai"

	"goclients/checks"
)

func main() { checks.Main("go-openai", community) }

// community returns the checks of go-openai.
func community(url, key string) []checks.Check {
	config := openai.DefaultConfig(key)
	config.BaseURL = url
	client := openai.NewClientWithConfig(config)
	ask := func(text string, tools ...string) openai.ChatCompletionRequest {
		r := openai.ChatCompletionRequest{Model: checks.Model, Messages: []openai.ChatCompletionMessage{{Role: "user", Content: text}}}
		for _, name := range tools {
			r.Tools = append(r.Tools, openai.Tool{Type: "function", Function: &openai.FunctionDefinition{Name: name, Parameters: checks.EmptyObject}})
		}
		return r
	}
	loop := func(ctx context.Context, r openai.ChatCompletionRequest, result string) (string, error) {
		a, err := client.CreateChatCompletion(ctx, r)
		if err != nil {
			return "", err
		}
		m := a.Choices[0].Message
		if len(m.ToolCalls) != 1 {
			return "", fmt.Errorf("the answer is %+v", m)
		}
		r.Messages = append(r.Messages, m, openai.ChatCompletionMessage{Role: "tool", Content: result, ToolCallID: m.ToolCalls[0].ID})
		if a, err = client.CreateChatCompletion(ctx, r); err != nil {
			return "", err
		}
		return a.Choices[0].Message.Content, nil
	}
	return []checks.Check{
		{"models and chat", func(ctx context.Context) error {
			list, err := client.ListModels(ctx)
			if err != nil {
				return err
			}
			a, err := client.CreateChatCompletion(ctx, ask("hello"))
			if err != nil {
				return err
			}
			return errors.Join(checks.Want(len(list.Models) > 0, true), checks.Want(a.Choices[0].Message.Content, key+" said hello"))
		}},
		{"stream", func(ctx context.Context) error {
			stream, err := client.CreateChatCompletionStream(ctx, ask("hello"))
			if err != nil {
				return err
			}
			defer stream.Close()
			var text strings.Builder
			for {
				chunk, err := stream.Recv()
				if errors.Is(err, io.EOF) {
					return checks.Want(text.String(), key+" said hello")
				}
				if err != nil {
					return err
				}
				text.WriteString(chunk.Choices[0].Delta.Content)
			}
		}},
		{"a tool of the client, an approval, a sandboxed tool", func(ctx context.Context) error {
			home, err := loop(ctx, ask("where am I?", "locate"), "at home")
			paid, paidErr := loop(ctx, ask("pay", "agenthost_approval"), "approve")
			a, sandboxErr := client.CreateChatCompletion(ctx, ask("sandbox"))
			if err := errors.Join(err, paidErr, sandboxErr); err != nil {
				return err
			}
			return errors.Join(checks.Want(home, "You are at home."), checks.Want(paid, "paid"), checks.Want(a.Choices[0].Message.Content, "The sandbox has answered."))
		}},
		{"structured output", func(ctx context.Context) error {
			schema, err := json.Marshal(checks.CountSchema)
			if err != nil {
				return err
			}
			r := ask("count")
			r.ResponseFormat = &openai.ChatCompletionResponseFormat{Type: "json_schema", JSONSchema: &openai.ChatCompletionResponseFormatJSONSchema{Name: "count", Strict: true, Schema: json.RawMessage(schema)}}
			a, err := client.CreateChatCompletion(ctx, r)
			if err != nil {
				return err
			}
			return checks.WantCount(a.Choices[0].Message.Content)
		}},
		{"a conversation of the host", func(ctx context.Context) error {
			r := ask("hello")
			r.Metadata = map[string]string{"thread_id": "of-go-openai"}
			if _, err := client.CreateChatCompletion(ctx, r); err != nil {
				return err
			}
			r.Messages[0].Content = "how many?"
			a, err := client.CreateChatCompletion(ctx, r)
			if err != nil {
				return err
			}
			return checks.Want(a.Choices[0].Message.Content, "You have said 2 things.")
		}},
		{"errors", func(ctx context.Context) error {
			r := ask("hello")
			r.N = 3
			_, err := client.CreateChatCompletion(ctx, r)
			var refused *openai.APIError
			if !errors.As(err, &refused) {
				return fmt.Errorf("the error is %v", err)
			}
			return errors.Join(checks.Want(refused.HTTPStatusCode, 400), checks.Want(*refused.Param, "n"))
		}},
		{"a canceled call", func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			stream, err := client.CreateChatCompletionStream(ctx, ask("wait"))
			if err != nil {
				return err
			}
			defer stream.Close()
			_, err = stream.Recv()
			cancel()
			_, canceled := stream.Recv()
			return errors.Join(err, checks.Want(errors.Is(canceled, context.Canceled), true))
		}},
	}
}
