package mcpclient

import (
	"encoding/json"
	"slices"

	"github.com/agenthost/agenthost/host/fault"
)

// maxSchemaDepth bounds the nesting of a schema that is repaired.
const maxSchemaDepth = 64

// repairSchema returns a schema that providers of models take, with the repairs it made. A
// provider refuses a schema that is not an object at its top, that has a choice there, or
// that has members which only readers of schemas need; it refuses types that are left out
// and arrays without items. A schema that another document completes cannot be repaired.
func repairSchema(raw json.RawMessage) (json.RawMessage, []string, error) {
	var doc any
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, nil, fault.Errorf(fault.InvalidArgument, "the schema is not JSON")
	}
	r := &repair{}
	root, isObject := doc.(map[string]any)
	switch {
	case doc == nil, doc == true:
		root = map[string]any{}
		r.note("an absent schema is that of any object")
	case !isObject:
		return nil, nil, fault.Errorf(fault.InvalidArgument, "the schema is not an object")
	}
	if err := r.top(root); err != nil {
		return nil, nil, err
	}
	if err := r.part(root, 0); err != nil {
		return nil, nil, err
	}
	fixed, err := json.Marshal(root)
	if err != nil {
		return nil, nil, fault.Errorf(fault.InvalidArgument, "the schema is not JSON")
	}
	return fixed, r.made, nil
}

// repair is a schema being repaired.
type repair struct{ made []string }

// note remembers a repair, once.
func (r *repair) note(what string) {
	if !slices.Contains(r.made, what) {
		r.made = append(r.made, what)
	}
}

// top repairs the outermost schema.
func (r *repair) top(root map[string]any) error {
	switch kind := root["type"].(type) {
	case nil:
	case []any:
		if !slices.Contains(kind, any("object")) {
			return errNoObject()
		}
		r.note("the top is an object and nothing else")
	default:
		if kind != "object" {
			return errNoObject()
		}
	}
	root["type"] = "object"
	for _, choice := range []string{"oneOf", "anyOf", "allOf", "not", "if", "then", "else"} {
		if _, ok := root[choice]; ok {
			delete(root, choice)
			r.note(choice + " at the top is left to the server")
		}
	}
	if root["properties"] == nil {
		root["properties"] = map[string]any{}
	}
	return nil
}

func errNoObject() error {
	return fault.Errorf(fault.InvalidArgument, "the schema is not that of an object, which the arguments of a tool are")
}

// part repairs a schema below the top, and the top's other members.
func (r *repair) part(s map[string]any, depth int) error {
	if depth > maxSchemaDepth {
		return fault.Errorf(fault.ResourceExhausted, "the schema is nested deeper than %d", maxSchemaDepth)
	}
	for _, name := range []string{"$schema", "$id", "$comment", "x-mcp-header"} {
		delete(s, name) // of no use to a model
	}
	if ref, ok := s["$ref"].(string); ok && (ref == "" || ref[0] != '#') {
		return fault.Errorf(fault.InvalidArgument, "the schema refers to another document")
	}
	if s["type"] == "array" && s["items"] == nil && s["prefixItems"] == nil {
		s["items"] = map[string]any{}
		r.note("an array without items holds anything")
	}
	if required, ok := s["required"].([]any); ok {
		s["required"] = r.known(required, s["properties"])
	} else if s["required"] != nil {
		delete(s, "required")
		r.note("required is a list of names")
	}
	for name, v := range s {
		if err := r.member(name, v, depth); err != nil {
			return err
		}
	}
	return nil
}

// known returns the required names that the schema describes.
func (r *repair) known(required []any, properties any) []any {
	described, ok := properties.(map[string]any)
	if !ok {
		return required
	}
	kept := []any{}
	for _, name := range required {
		if text, _ := name.(string); described[text] != nil && !slices.Contains(kept, name) {
			kept = append(kept, name)
			continue
		}
		r.note("a required name has a property, and stands once")
	}
	return kept
}

// member repairs the schemas in a member of one.
func (r *repair) member(name string, v any, depth int) error {
	switch name {
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
		parts, _ := v.(map[string]any)
		for _, p := range parts {
			if s, ok := p.(map[string]any); ok {
				if err := r.part(s, depth+1); err != nil {
					return err
				}
			}
		}
	case "items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties":
		if s, ok := v.(map[string]any); ok {
			return r.part(s, depth+1)
		}
	case "oneOf", "anyOf", "allOf", "prefixItems":
		parts, _ := v.([]any)
		for _, p := range parts {
			if s, ok := p.(map[string]any); ok {
				if err := r.part(s, depth+1); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
