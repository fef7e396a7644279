package toolcallfilter

import "github.com/agenthost/agenthost/pdk/go/pdk"

// schema is the JSON Schema of the configuration. A host holds configurations to
// it before it runs anything; parseConfig refuses the same ones and says more.
const schema = `{
"type":"object",
"properties":{
"include":{"type":"array","items":{"type":"string","minLength":1},"description":"Keep the calls of these tools alone. Empty counts as absent."},
"exclude":{"type":"array","items":{"type":"string","minLength":1},"description":"Remove the calls of these tools. Not together with include."},
"persistResults":{"type":"boolean","description":"Leave a message that says which tools were used."},
"own_rounds":{"enum":["keep","filter"],"description":"Whether the calls that the agent has made since it was picked are left alone. Default keep."}},
"not":{"required":["include","exclude"],"properties":{"include":{"minItems":1}}},
"additionalProperties":false}`

// config is a configuration that was checked.
type config struct {
	mode      mode
	tools     []string // that the mode is about
	summaries bool
	ownToo    bool // what the agent itself has done since it was picked is filtered as well
}

// A mode says which tools' calls go.
type mode uint8

const (
	removeAll mode = iota
	removeListed
	keepListed
)

// removes reports whether the calls of a tool go.
func (c *config) removes(tool string) bool {
	for _, listed := range c.tools {
		if listed == tool {
			return c.mode == removeListed
		}
	}
	return c.mode != removeListed
}

func parseConfig(raw pdk.Raw) (config, error) {
	var c config
	switch raw.Kind() {
	case pdk.KindNone, pdk.KindNull:
		return c, nil
	case pdk.KindObject:
		if !raw.Valid() {
			return c, refuse("it is not JSON")
		}
	default:
		return c, refuse("it is %s, not an object", raw)
	}
	var include, exclude []string
	for key, value := range raw.Members() {
		var err error
		switch key {
		case "include":
			include, err = toolNames(key, value)
		case "exclude":
			exclude, err = toolNames(key, value)
		case "persistResults":
			c.summaries, err = boolean(key, value)
		case "own_rounds":
			c.ownToo, err = ownRounds(value)
		default:
			err = refuse("it has the unknown key %q; known are include, exclude, persistResults and own_rounds", key)
		}
		if err != nil {
			return config{}, err
		}
	}
	switch {
	case len(include) > 0 && exclude != nil:
		return config{}, refuse("include and exclude are both given; choose one")
	case len(include) > 0:
		c.mode, c.tools = keepListed, include
	case exclude != nil:
		c.mode, c.tools = removeListed, exclude
	}
	return c, nil
}

// toolNames reads a list of names; it is not nil, even if it is empty.
func toolNames(key string, value pdk.Raw) ([]string, error) {
	if value.Kind() != pdk.KindArray {
		return nil, refuse("%s is %s, not a list of tool names", key, value)
	}
	names := []string{}
	for element := range value.Elements() {
		name, ok := element.Str()
		if !ok || name == "" {
			return nil, refuse("%s holds %s, which is not the name of a tool", key, element)
		}
		names = append(names, name)
	}
	return names, nil
}

func boolean(key string, value pdk.Raw) (bool, error) {
	b, ok := value.Bool()
	if !ok {
		return false, refuse("%s is %s, not true or false", key, value)
	}
	return b, nil
}

// ownRounds reports whether own rounds are filtered.
func ownRounds(value pdk.Raw) (bool, error) {
	switch text, _ := value.Str(); text {
	case "filter":
		return true, nil
	case "keep":
		return false, nil
	}
	return false, refuse("own_rounds is %s, not keep or filter", value)
}

// refuse is the error for a configuration that is wrong.
func refuse(format string, args ...any) error {
	err := pdk.Errorf(pdk.InvalidArgument, "config of "+Name+": "+format, args...)
	err.Hint = `for example {"exclude":["debug_log"],"persistResults":true}`
	return err
}
