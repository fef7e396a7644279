package tokenlimiter

import "github.com/agenthost/agenthost/pdk/go/pdk"

// The encodings that a configuration may name.
const (
	defaultEncoding = "o200k_base"
	modelEncoding   = "model" // the one of the conversation's model
)

func encodings() []string {
	return []string{defaultEncoding, "cl100k_base", "p50k_base", "r50k_base", "gpt2", modelEncoding}
}

// Info says how tokens were counted.
type Info struct {
	Encoding    string // or the name of the custom tokenizer
	Type        string // one of the Type constants
	HasTiktoken bool   // whether the host had exact counts to give
}

// The types of an [Info].
const (
	TypeExact       = "TiktokenTokenizer"
	TypeApproximate = "ApproximateTokenizer"
	TypeCustom      = "CustomTokenizer"
)

// count returns the tokens of each message, and how they were counted: exactly if
// the host did, by its length otherwise.
func (l *Limiter) count(o *pdk.Outline) ([]int, Info) {
	c := &l.config
	counted := o.Tokens != nil
	switch {
	case c.tokenizer != "" && counted:
		return o.Tokens, Info{c.tokenizer, TypeCustom, true}
	case !c.estimate && counted:
		return o.Tokens, Info{o.Encoding, TypeExact, true}
	}
	encoding := c.encoding
	if encoding == modelEncoding {
		encoding = defaultEncoding
	}
	l.counts = l.counts[:0]
	for _, chars := range o.Chars {
		l.counts = append(l.counts, approximate(encoding, chars))
	}
	return l.counts, Info{encoding, TypeApproximate, counted}
}

// approximate estimates the tokens of a text of so many UTF-16 units.
func approximate(encoding string, units int) int {
	d := tenthsPerToken(encoding)
	return (units*10 + d - 1) / d
}

// tenthsPerToken is how many tenths of a UTF-16 unit a token of English has on
// average.
func tenthsPerToken(encoding string) int {
	switch encoding {
	case "cl100k_base":
		return 40
	case "p50k_base":
		return 38
	case "r50k_base":
		return 35
	case "gpt2":
		return 32
	}
	return 42
}
