// Command official calls a host with openai-go: official URL KEY...
package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"goclients/checks"
)

func main() { checks.Main("openai-go", official) }

// official returns the checks of openai-go.
func official(url, key string) []checks.Check {
	client := openai.NewClient(option.WithBaseURL(url), option.WithAPIKey(key), option.WithMaxRetries(0))
	ask := func(text string, tools ...string) openai.ChatCompletionNewParams {
		p := openai.ChatCompletionNewParams{Model: checks.Model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}
		for _, name := range tools {
			p.Tools = append(p.Tools, openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: name, Parameters: checks.EmptyObject}))
		}
		return p
	}
	// loop answers the first call of a tool.
	loop := func(ctx context.Context, p openai.ChatCompletionNewParams, result string) (string, error) {
		a, err := client.Chat.Completions.New(ctx, p)
		if err != nil {
			return "", err
		}
		if len(a.Choices[0].Message.ToolCalls) != 1 || a.Choices[0].FinishReason != "tool_calls" {
			return "", fmt.Errorf("the answer is %s", a.RawJSON())
		}
		p.Messages = append(p.Messages, a.Choices[0].Message.ToParam(), openai.ToolMessage(result, a.Choices[0].Message.ToolCalls[0].ID))
		if a, err = client.Chat.Completions.New(ctx, p); err != nil {
			return "", err
		}
		return a.Choices[0].Message.Content, nil
	}
	asked := func(text string) responses.ResponseNewParams {
		return responses.ResponseNewParams{Model: checks.Model, Input: responses.ResponseNewParamsInputUnion{OfString: param.NewOpt(text)}}
	}
	// respond answers the call of a tool in a response, whose conversation the host keeps.
	respond := func(ctx context.Context, text, tool, result, last string) error {
		p := asked(text)
		p.Tools = []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{Name: tool, Parameters: checks.EmptyObject}}}
		a, err := client.Responses.New(ctx, p)
		if err != nil {
			return err
		}
		for _, item := range a.Output {
			if item.Type != "function_call" {
				continue
			}
			p.PreviousResponseID = param.NewOpt(a.ID)
			output := responses.ResponseInputItemFunctionCallOutputParam{CallID: param.NewOpt(item.CallID)}
			output.Output.OfString = param.NewOpt(result)
			p.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{{OfFunctionCallOutput: &output}}}
			b, err := client.Responses.New(ctx, p)
			if err != nil {
				return err
			}
			return errors.Join(checks.Want(item.Name, tool), checks.Want(b.OutputText(), last))
		}
		return fmt.Errorf("the response is %s", a.RawJSON())
	}
	return []checks.Check{
		{"chat", func(ctx context.Context) error {
			a, err := client.Chat.Completions.New(ctx, ask("hello"))
			if err != nil {
				return err
			}
			return checks.Want(a.Choices[0].Message.Content, key+" said hello")
		}},
		{"stream", func(ctx context.Context) error {
			p := ask("hello")
			p.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)}
			stream, acc := client.Chat.Completions.NewStreaming(ctx, p), openai.ChatCompletionAccumulator{}
			for stream.Next() {
				acc.AddChunk(stream.Current())
			}
			if err := stream.Err(); err != nil {
				return err
			}
			return errors.Join(checks.Want(acc.Choices[0].Message.Content, key+" said hello"), checks.Want(acc.Usage.TotalTokens > 0, true))
		}},
		{"a tool of the client", func(ctx context.Context) error {
			text, err := loop(ctx, ask("where am I?", "locate"), "at home")
			return errors.Join(err, checks.Want(text, "You are at home."))
		}},
		{"an approval", func(ctx context.Context) error {
			text, err := loop(ctx, ask("pay", "agenthost_approval"), `{"approve":true}`)
			return errors.Join(err, checks.Want(text, "paid"))
		}},
		{"a sandboxed tool", func(ctx context.Context) error {
			a, err := client.Chat.Completions.New(ctx, ask("sandbox"))
			if err != nil {
				return err
			}
			return checks.Want(a.Choices[0].Message.Content, "The sandbox has answered.")
		}},
		{"structured output", func(ctx context.Context) error {
			p := ask("count")
			p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "count", Strict: param.NewOpt(true), Schema: checks.CountSchema}}
			a, err := client.Chat.Completions.New(ctx, p)
			if err != nil {
				return err
			}
			return checks.WantCount(a.Choices[0].Message.Content)
		}},
		{"errors", func(ctx context.Context) error {
			p := ask("hello")
			p.Model = "nobody"
			_, err := client.Chat.Completions.New(ctx, p)
			var refused *openai.Error
			if !errors.As(err, &refused) {
				return fmt.Errorf("the error is %v", err)
			}
			return errors.Join(checks.Want(refused.StatusCode, 404), checks.Want(refused.Code, "model_not_found"))
		}},
		{"responses", func(ctx context.Context) error {
			a, err := client.Responses.New(ctx, asked("hello"))
			if err != nil {
				return err
			}
			p := asked("how many?")
			p.PreviousResponseID = param.NewOpt(a.ID)
			b, err := client.Responses.New(ctx, p)
			if err != nil {
				return err
			}
			again, err := client.Responses.Get(ctx, b.ID, responses.ResponseGetParams{})
			if err != nil {
				return err
			}
			return errors.Join(checks.Want(a.OutputText(), key+" said hello"), checks.Want(b.OutputText(), "You have said 2 things."), checks.Want(again.OutputText(), b.OutputText()), client.Responses.Delete(ctx, b.ID))
		}},
		{"responses stream", func(ctx context.Context) error {
			stream := client.Responses.NewStreaming(ctx, asked("hello"))
			text, last := "", ""
			for stream.Next() {
				ev := stream.Current()
				if last = ev.Type; ev.Type == "response.output_text.delta" {
					text += ev.Delta
				}
			}
			return errors.Join(stream.Err(), checks.Want(text, key+" said hello"), checks.Want(last, "response.completed"))
		}},
		{"a tool of the client in responses", func(ctx context.Context) error {
			return respond(ctx, "where am I?", "locate", "at home", "You are at home.")
		}},
		{"an approval in responses", func(ctx context.Context) error {
			return respond(ctx, "pay", "agenthost_approval", `{"approve":true}`, "paid")
		}},
		{"a sandboxed tool in responses", func(ctx context.Context) error {
			a, err := client.Responses.New(ctx, asked("sandbox"))
			if err != nil {
				return err
			}
			return checks.Want(a.OutputText(), "The sandbox has answered.")
		}},
		{"structured output of responses", func(ctx context.Context) error {
			p := asked("count")
			p.Text.Format.OfJSONSchema = &responses.ResponseFormatTextJSONSchemaConfigParam{Name: "count", Strict: param.NewOpt(true), Schema: checks.CountSchema}
			a, err := client.Responses.New(ctx, p)
			if err != nil {
				return err
			}
			return checks.WantCount(a.OutputText())
		}},
		{"a response in the background, canceled", func(ctx context.Context) error {
			p := asked("wait")
			p.Background = param.NewOpt(true)
			a, err := client.Responses.New(ctx, p)
			if err != nil {
				return err
			}
			ended, err := client.Responses.Cancel(ctx, a.ID)
			if err != nil {
				return err
			}
			again, err := client.Responses.Get(ctx, a.ID, responses.ResponseGetParams{})
			if err != nil {
				return err
			}
			return errors.Join(checks.Want(string(ended.Status), "cancelled"), checks.Want(string(again.Status), "cancelled"))
		}},
		{"a canceled call", func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			stream := client.Chat.Completions.NewStreaming(ctx, ask("wait"))
			begun := stream.Next()
			cancel()
			return errors.Join(checks.Want(begun, true), checks.Want(stream.Next(), false), checks.Want(errors.Is(stream.Err(), context.Canceled), true))
		}},
	}
}
