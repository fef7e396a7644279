package plugintest

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/agenthost/agenthost/host"
)

// maxSampleDepth bounds how deep a sample nests, so that the sample of a recursive schema
// is finite.
const maxSampleDepth = 16

// sample returns a value that fits a JSON Schema, made from its types, its required
// members and its examples; nil if the made value does not fit. Without a schema it is
// an object without members.
func sample(schema json.RawMessage) json.RawMessage {
	if len(schema) == 0 {
		return json.RawMessage("{}")
	}
	compiled, err := host.CompileSchema(schema)
	if err != nil {
		return nil
	}
	s := sampler{root: schema}
	for _, value := range []json.RawMessage{json.RawMessage("{}"), s.of(schema, 0)} {
		if value != nil && compiled.Validate(value) == nil {
			return value
		}
	}
	return nil
}

type sampler struct{ root json.RawMessage }

// sampledSchema has the keywords of a schema that a sample is made from.
type sampledSchema struct {
	Ref        string                     `json:"$ref"`
	Const      json.RawMessage            `json:"const"`
	Enum       []json.RawMessage          `json:"enum"`
	Examples   []json.RawMessage          `json:"examples"`
	Default    json.RawMessage            `json:"default"`
	Type       json.RawMessage            `json:"type"`
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
	Items      json.RawMessage            `json:"items"`
	MinItems   int                        `json:"minItems"`
	MinLength  int                        `json:"minLength"`
	Minimum    *json.Number               `json:"minimum"`
	Maximum    *json.Number               `json:"maximum"`
	OneOf      []json.RawMessage          `json:"oneOf"`
	AnyOf      []json.RawMessage          `json:"anyOf"`
}

const (
	maxSampleItems  = 100     // of an array, and required members of an object
	maxSampleLength = 1 << 10 // of a string
)

func (s sampler) of(schema json.RawMessage, depth int) json.RawMessage {
	var in sampledSchema
	if depth > maxSampleDepth || json.Unmarshal(schema, &in) != nil {
		return json.RawMessage("null") // also for the schema true, which accepts any value
	}
	switch {
	case in.Ref != "":
		return s.of(s.at(in.Ref), depth+1)
	case in.Const != nil:
		return in.Const
	case len(in.Examples) > 0:
		return in.Examples[0]
	case in.Default != nil:
		return in.Default
	case len(in.Enum) > 0:
		return in.Enum[0]
	case in.Type == nil && in.Properties == nil && len(in.OneOf) > 0:
		return s.of(in.OneOf[0], depth+1)
	case in.Type == nil && in.Properties == nil && len(in.AnyOf) > 0:
		return s.of(in.AnyOf[0], depth+1)
	}
	return s.ofType(&in, depth)
}

func (s sampler) ofType(in *sampledSchema, depth int) json.RawMessage {
	switch kind := in.kind(); kind {
	case "object":
		return s.object(in, depth)
	case "array":
		items := make([]json.RawMessage, min(max(in.MinItems, 0), maxSampleItems))
		for i := range items {
			items[i] = s.of(in.Items, depth+1)
		}
		return mustJSON(items)
	case "string":
		return mustJSON(strings.Repeat("x", min(max(in.MinLength, 1), maxSampleLength)))
	case "integer", "number":
		return in.number()
	case "boolean":
		return json.RawMessage("true")
	}
	return json.RawMessage("null")
}

// roomyNumber is the sample of a number with only a lower bound. Such a number is often a
// limit or a size, so the sample leaves room.
const roomyNumber = 1000

func (in *sampledSchema) number() json.RawMessage {
	switch {
	case in.Maximum != nil:
		return json.RawMessage(*in.Maximum)
	case in.Minimum == nil:
		return json.RawMessage("1")
	}
	if least, err := in.Minimum.Float64(); err == nil && least <= roomyNumber {
		return json.RawMessage(strconv.Itoa(roomyNumber))
	}
	return json.RawMessage(*in.Minimum)
}

// kind is the type of a sample: the first one that a schema names.
func (in *sampledSchema) kind() string {
	var one string
	var several []string
	switch {
	case json.Unmarshal(in.Type, &one) == nil && one != "":
		return one
	case json.Unmarshal(in.Type, &several) == nil && len(several) > 0:
		return several[0]
	case in.Properties != nil || in.Required != nil:
		return "object"
	}
	return "null"
}

// object makes an object with the required members, and no others.
func (s sampler) object(in *sampledSchema, depth int) json.RawMessage {
	out := map[string]json.RawMessage{}
	for _, name := range in.Required[:min(len(in.Required), maxSampleItems)] {
		out[name] = s.of(in.Properties[name], depth+1)
	}
	return mustJSON(out)
}

// at returns the part of the root schema that a reference names; nil if the reference is
// not a pointer into the same document.
func (s sampler) at(ref string) json.RawMessage {
	pointer, inside := strings.CutPrefix(ref, "#")
	if !inside {
		return nil
	}
	here := s.root
	for _, name := range strings.Split(pointer, "/")[1:] {
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		var members map[string]json.RawMessage
		var items []json.RawMessage
		i, err := strconv.Atoi(name)
		switch {
		case json.Unmarshal(here, &members) == nil:
			here = members[name]
		case json.Unmarshal(here, &items) == nil && err == nil && i >= 0 && i < len(items):
			here = items[i]
		default:
			return nil
		}
	}
	return slices.Clone(here)
}

// mustJSON encodes values that always have JSON.
func mustJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}
