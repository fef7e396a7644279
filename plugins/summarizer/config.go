package summarizer

import "github.com/agenthost/agenthost/pdk/go/pdk"

// schema is the JSON Schema of the configuration. A host holds configurations to
// it before it runs anything; parseConfig refuses the same ones and says more.
const schema = `{
"anyOf":[
{"type":"integer","minimum":1,"description":"The target."},
{"type":"object",
"properties":{
"target":{"type":"integer","minimum":1,"description":"How many of the newest messages stay."},
"threshold":{"type":"integer","minimum":0,"description":"How many messages beyond the target are left alone. Default: 10."},
"prompt":{"type":"string","minLength":1,"description":"Asks for the summary."},
"model":{"type":"string","minLength":1,"description":"A model of the operator's choice, by name. Default: the agent's."},
"maxTokens":{"type":"integer","minimum":1,"maximum":65536,"description":"Of a summary. Default: 500."}},
"required":["target"],
"additionalProperties":false}]}`

// The defaults of the configuration.
const (
	defaultThreshold = 10
	defaultMaxTokens = 500
	maxMaxTokens     = 65536
	defaultPrompt    = "Summarize the conversation so far in at most five sentences, for an assistant that goes on with it and sees " +
		"nothing else of it. Keep names, numbers, decisions, what tools found out, and what is still open. Answer with the summary alone."
)

// config is a configuration that was checked.
type config struct {
	target, threshold, maxTokens int
	prompt, model                string
}

func parseConfig(raw pdk.Raw) (config, error) {
	c := config{threshold: defaultThreshold, maxTokens: defaultMaxTokens, prompt: defaultPrompt}
	if n, ok := raw.Int(); ok {
		c.target = int(n)
		return c, c.check()
	}
	if raw.Kind() != pdk.KindObject || !raw.Valid() {
		return c, refuse("it is %s, neither a number nor an object", raw)
	}
	for key, value := range raw.Members() {
		var err error
		switch key {
		case "target":
			c.target, err = number(key, value)
		case "threshold":
			c.threshold, err = number(key, value)
		case "maxTokens":
			c.maxTokens, err = number(key, value)
		case "prompt":
			c.prompt, err = text(key, value)
		case "model":
			c.model, err = text(key, value)
		default:
			err = refuse("the key %q is not one of target, threshold, prompt, model and maxTokens", key)
		}
		if err != nil {
			return c, err
		}
	}
	return c, c.check()
}

func (c *config) check() error {
	switch {
	case c.target < 1:
		return refuse("target is %d, less than 1", c.target)
	case c.threshold < 0:
		return refuse("threshold is %d, less than 0", c.threshold)
	case c.maxTokens < 1 || c.maxTokens > maxMaxTokens:
		return refuse("maxTokens is %d, not 1 to %d", c.maxTokens, maxMaxTokens)
	}
	return nil
}

func number(key string, value pdk.Raw) (int, error) {
	n, ok := value.Int()
	if !ok || n > 1<<30 || n < -1<<30 {
		return 0, refuse("%s is %s, not a whole number", key, value)
	}
	return int(n), nil
}

func text(key string, value pdk.Raw) (string, error) {
	s, ok := value.Str()
	if !ok || s == "" {
		return "", refuse("%s is %s, not a text", key, value)
	}
	return s, nil
}

func refuse(format string, args ...any) error {
	return pdk.Errorf(pdk.InvalidArgument, "configuration of summarizer: "+format, args...)
}
