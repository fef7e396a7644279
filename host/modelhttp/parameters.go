package modelhttp

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
)

// AddParameters writes parameters into a request, a JSON object: each takes the place
// of the member of its name, or stands behind all; where both are objects, their
// members are put together in the same way. Reserved are the members that the caller
// alone writes, those of members as "outer/inner": code invalid_argument for them, in
// any case and with underscores or without, as services read them that take a name in
// two spellings (generationConfig and generation_config).
func AddParameters(request []byte, parameters map[string]json.RawMessage, reserved ...string) ([]byte, error) {
	if len(parameters) == 0 {
		return request, nil
	}
	members, err := readMembers(request)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		inner := within(reserved, name)
		if slices.Contains(inner, "") || len(inner) > 0 && !isObject(parameters[name]) { // a value other than an object would replace all members
			return nil, fault.Errorf(fault.InvalidArgument, "the model parameter %.60q is one that the host writes", name).
				WithHint("leave it out; agents have options for tools, outputs and limits")
		}
		i := slices.IndexFunc(members, func(m member) bool { return spelled(m.name) == spelled(name) })
		if i < 0 {
			members, i = append(members, member{name: name}), len(members)
		}
		if members[i].value, err = addParameter(members[i].value, parameters[name], inner); err != nil {
			return nil, err
		}
	}
	return writeMembers(members), nil
}

// addParameter returns the new value of a member; before is nil if it has none.
func addParameter(before, value json.RawMessage, reserved []string) (json.RawMessage, error) {
	var inner map[string]json.RawMessage
	if !isObject(value) || !isObject(before) && len(reserved) == 0 || json.Unmarshal(value, &inner) != nil {
		return value, nil
	}
	if !isObject(before) {
		before = json.RawMessage(`{}`)
	}
	return AddParameters(before, inner, reserved...)
}

// within returns the reserved members of a member, and "" for itself.
func within(reserved []string, name string) (inner []string) {
	for _, r := range reserved {
		if first, rest, _ := strings.Cut(r, "/"); spelled(first) == spelled(name) {
			inner = append(inner, rest)
		}
	}
	return inner
}

// spelled returns the one spelling of a name.
func spelled(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

func isObject(raw json.RawMessage) bool { return bytes.HasPrefix(bytes.TrimSpace(raw), []byte{'{'}) }

type member struct {
	name  string
	value json.RawMessage
}

// readMembers reads an object in its order.
func readMembers(object []byte) (list []member, err error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := member{}
		m.name, _ = name.(string)
		if err := d.Decode(&m.value); err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

func writeMembers(list []member) []byte {
	b := []byte{'{'}
	for i, m := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(chat.AppendJSONString(b, m.name), ':')
		b = append(b, m.value...)
	}
	return append(b, '}')
}

// AddHeadParameters is AddParameters for the head of a request, which ends where the
// list of its messages is open: {...,"messages":[ with the list's name.
func AddHeadParameters(head []byte, list string, parameters map[string]json.RawMessage, reserved ...string) ([]byte, error) {
	if len(parameters) == 0 {
		return head, nil
	}
	opening := `"` + list + `":[`
	object := bytes.TrimSuffix(bytes.TrimSuffix(head, []byte(opening)), []byte{','})
	with, err := AddParameters(append(slices.Clip(object), '}'), parameters, reserved...)
	if err != nil {
		return nil, err
	}
	return append(append(bytes.TrimSuffix(with, []byte{'}'}), ','), opening...), nil
}

// OpenAICache returns parameters with the words of OpenAI's two protocols for an
// llm.PromptCache among them. The service caches by itself, so that nothing says Off.
func OpenAICache(parameters llm.Parameters) (llm.Parameters, error) {
	c, rest, err := parameters.PromptCache()
	if err != nil || c == nil {
		return rest, err
	}
	words := llm.Parameters{}
	if c.Key != "" {
		words["prompt_cache_key"] = chat.AppendJSONString(nil, c.Key)
	}
	if c.Long {
		words["prompt_cache_retention"] = json.RawMessage(`"24h"`)
	}
	return words.With(rest), nil
}
