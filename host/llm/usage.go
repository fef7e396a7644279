package llm

import (
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
