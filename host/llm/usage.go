package llm

import (
	"context"

	"github.com/agenthost/agenthost/host/chat"
)

// bytesPerToken is the usual ratio, for models that do not report their usage.
const bytesPerToken = 4

// EstimateTokens returns about how many tokens a text of n bytes has.
func EstimateTokens(n int) int { return n / bytesPerToken }

// EstimateUsage returns about how many tokens a request and its answer have, from their
// bytes.
func EstimateUsage(req *Request, resp *Response) chat.Usage {
	in, out := 0, 0
	for _, m := range req.Messages {
		n, _ := m.Size()
		in += n
	}
	for _, t := range req.Tools {
		in += len(t.Parameters) + len(t.Description)
	}
	for _, t := range req.ProviderTools {
		in += len(t.Declaration)
	}
	out, _ = (&chat.Message{Parts: resp.Parts}).Size()
	return chat.Usage{InputTokens: EstimateTokens(in), OutputTokens: EstimateTokens(out), Estimated: true}
}

// leastBytesPerToken is what a token has at least, in the estimate for a reservation.
const leastBytesPerToken = 3

// MostTokens estimates the tokens of a request from above.
func MostTokens(req *Request) int {
	n := 0
	for _, m := range req.Messages {
		bytes, _ := m.Size()
		n += bytes
	}
	return (n+toolBytes(req))/leastBytesPerToken + 1
}

// toolBytes returns the bytes of the tools that a request describes.
func toolBytes(req *Request) (n int) {
	for _, t := range req.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	for _, t := range req.ProviderTools {
		n += len(t.Declaration)
	}
	return n
}

// CountRequest counts the tokens of a request for a model whose tokenizer is known. counter
// may be nil.
func CountRequest(ctx context.Context, counter chat.TokenCounter, model string, req *Request) (n int, ok bool) {
	n, approximate := CountMessages(ctx, counter, model, req.Messages)
	return n + toolBytes(req)/leastBytesPerToken, n >= 0 && !approximate
}

// CountMessages counts the tokens of messages for a model: -1 if they cannot be counted,
// approximate if its tokenizer is not known. counter may be nil.
func CountMessages(ctx context.Context, counter chat.TokenCounter, model string, messages []*chat.Message) (n int, approximate bool) {
	if counter == nil {
		return -1, false
	}
	encoding, exact := counter.EncodingFor(model)
	for _, m := range messages {
		c, err := m.CountTokens(ctx, counter, encoding)
		if err != nil {
			return -1, false
		}
		n += c
	}
	return n, !exact
}
