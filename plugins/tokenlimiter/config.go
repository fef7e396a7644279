package tokenlimiter

import (
	"strings"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

// schema is the JSON Schema of the configuration. A host holds configurations to
// it before it runs anything; parseConfig refuses the same ones, says more, and
// knows besides that reserve is below limit, which a schema cannot say.
const schema = `{
"type":["integer","object"],
"minimum":1,"maximum":9007199254740991,
"properties":{
"limit":{"type":"integer","minimum":1,"maximum":9007199254740991,"description":"The most tokens that the messages may have."},
"encoding":{"enum":["o200k_base","cl100k_base","p50k_base","r50k_base","gpt2","model"],"description":"In which to count; model is that of the model."},
"useTiktoken":{"type":"boolean","description":"false estimates instead of counting."},
"tokenizer":{"type":"string","minLength":1,"description":"A tokenizer of the host's to count with instead."},
"reserve":{"type":"integer","minimum":0,"maximum":9007199254740991,"description":"How many tokens of the limit to leave free."},
"oversize":{"enum":["error","empty"],"description":"What to do when not even the newest messages fit."}},
"required":["limit"],
"additionalProperties":false}`

// maxTokens is the largest number in a configuration: the last up to which every
// JSON reader knows integers exactly.
const maxTokens = 1<<53 - 1

// config is a configuration that was checked.
type config struct {
	limit     int
	reserve   int
	encoding  string
	tokenizer string // "" for none
	estimate  bool   // do not count
	empty     bool   // when the newest segment is too large
}

func parseConfig(raw pdk.Raw) (config, error) {
	c := config{encoding: defaultEncoding}
	switch raw.Kind() {
	case pdk.KindNumber:
		err := integer("limit", raw, 1, &c.limit)
		return c, err
	case pdk.KindObject:
		if !raw.Valid() {
			return c, refuse("it is not JSON")
		}
	case pdk.KindNone, pdk.KindNull:
		return c, refuse("limit is missing")
	default:
		return c, refuse("it is %s, neither a number of tokens nor an object", raw)
	}
	for key, value := range raw.Members() {
		if err := c.set(key, value); err != nil {
			return config{}, err
		}
	}
	switch {
	case c.limit == 0:
		return config{}, refuse("limit is missing")
	case c.reserve >= c.limit:
		return config{}, refuse("reserve is %d, which leaves nothing of the limit of %d", c.reserve, c.limit)
	}
	return c, nil
}

func (c *config) set(key string, value pdk.Raw) error {
	switch key {
	case "limit":
		return integer(key, value, 1, &c.limit)
	case "reserve":
		return integer(key, value, 0, &c.reserve)
	case "encoding":
		return oneOf(key, value, encodings(), &c.encoding)
	case "tokenizer":
		name, ok := value.Str()
		if !ok || name == "" {
			return refuse("tokenizer is %s, not the name of a tokenizer", value)
		}
		c.tokenizer = name
	case "useTiktoken":
		use, ok := value.Bool()
		if !ok {
			return refuse("useTiktoken is %s, not true or false", value)
		}
		c.estimate = !use
	case "oversize":
		what := ""
		err := oneOf(key, value, []string{"error", "empty"}, &what)
		c.empty = what == "empty"
		return err
	default:
		return refuse("it has the unknown key %q; known are limit, encoding, useTiktoken, tokenizer, reserve and oversize", key)
	}
	return nil
}

// integer reads an integer of at least low; 8e3 is one.
func integer(key string, value pdk.Raw, low int, into *int) error {
	f, ok := value.Float()
	if !ok || f < float64(low) || f > maxTokens || f != float64(int64(f)) {
		return refuse("%s is %s, not an integer from %d to %d", key, value, low, maxTokens)
	}
	*into = int(f)
	return nil
}

func oneOf(key string, value pdk.Raw, allowed []string, into *string) error {
	got, ok := value.Str()
	for _, a := range allowed {
		if ok && got == a {
			*into = a
			return nil
		}
	}
	return refuse("%s is %s, not one of %s", key, value, strings.Join(allowed, ", "))
}

// refuse is the error for a configuration that is wrong.
func refuse(format string, args ...any) error {
	err := pdk.Errorf(pdk.InvalidArgument, "config of "+Name+": "+format, args...)
	err.Hint = `for example 8000, or {"limit":16000,"encoding":"cl100k_base"}`
	return err
}
