package tokens

import "context"

// EncodingFor is [EncodingForModel] as a method, so that a Counter can be handed
// to whoever counts for models.
func (c *Counter) EncodingFor(model string) (name string, exact bool) {
	return EncodingForModel(model)
}

// CountTokens is [Counter.Count] of a text held in bytes, which are not kept.
func (c *Counter) CountTokens(ctx context.Context, tokenizer string, text []byte) (int, error) {
	return c.Count(ctx, tokenizer, string(text))
}
