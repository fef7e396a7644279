package pdktest

import (
	"fmt"
	"slices"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

// Apply returns messages after edits, as a host applies them, except that it
// leaves absent ids and times empty. It refuses the whole list if an edit breaks
// a rule of the contract. messages is not changed.
func Apply(messages []pdk.Message, edits []pdk.Edit) ([]pdk.Message, error) {
	a := applying{
		messages: messages,
		done:     make([]pdk.EditKind, len(messages)),
		touched:  make([]bool, len(messages)),
		replaced: map[int]pdk.Message{},
		parts:    map[int][]int{},
		inserts:  map[int][]pdk.Message{},
	}
	for i, e := range edits {
		if err := a.add(e); err != nil {
			return nil, fmt.Errorf("edit %d, %s: %w", i, e.Kind, err)
		}
	}
	return a.result(), nil
}

// applying is a list of edits sorted by what they touch.
type applying struct {
	messages []pdk.Message
	touched  []bool // by a drop, a replace or drop_parts,
	done     []pdk.EditKind
	replaced map[int]pdk.Message
	parts    map[int][]int
	inserts  map[int][]pdk.Message
}

func (a *applying) add(e pdk.Edit) error {
	switch e.Kind {
	case pdk.EditDrop:
		if e.At < 0 || e.To > len(a.messages) || e.At >= e.To {
			return fmt.Errorf("range [%d,%d) of %d messages", e.At, e.To, len(a.messages))
		}
		for i := e.At; i < e.To; i++ {
			if err := a.touch(i, e.Kind); err != nil {
				return err
			}
		}
		return nil
	case pdk.EditDropPart:
		return a.dropPart(e)
	case pdk.EditReplace:
		a.replaced[e.At] = *e.Message
		return a.touch(e.At, e.Kind)
	case pdk.EditInsert:
		if e.At < 0 || e.At > len(a.messages) {
			return fmt.Errorf("index %d of %d messages", e.At, len(a.messages))
		}
		a.inserts[e.At] = append(a.inserts[e.At], *e.Message)
		return nil
	}
	return fmt.Errorf("unknown kind of edit")
}

func (a *applying) touch(i int, kind pdk.EditKind) error {
	if i < 0 || i >= len(a.messages) {
		return fmt.Errorf("index %d of %d messages", i, len(a.messages))
	}
	if a.touched[i] {
		return fmt.Errorf("message %d already has a %s", i, a.done[i])
	}
	a.touched[i], a.done[i] = true, kind
	return nil
}

func (a *applying) dropPart(e pdk.Edit) error {
	if len(a.parts[e.At]) == 0 {
		if err := a.touch(e.At, e.Kind); err != nil {
			return err
		}
	}
	if e.Part < 0 || e.Part >= len(a.messages[e.At].Parts) {
		return fmt.Errorf("part %d of %d parts of message %d", e.Part, len(a.messages[e.At].Parts), e.At)
	}
	if slices.Contains(a.parts[e.At], e.Part) {
		return fmt.Errorf("part %d of message %d is dropped already", e.Part, e.At)
	}
	a.parts[e.At] = append(a.parts[e.At], e.Part)
	return nil
}

func (a *applying) result() []pdk.Message {
	var out []pdk.Message
	for i := range a.messages {
		out = append(out, a.inserts[i]...)
		if m := a.edited(i); m != nil {
			out = append(out, *m)
		}
	}
	return append(out, a.inserts[len(a.messages)]...)
}

// edited returns message i after its edits, nil if it went.
func (a *applying) edited(i int) *pdk.Message {
	m := a.messages[i]
	if !a.touched[i] {
		return &m
	}
	switch a.done[i] {
	case pdk.EditReplace:
		m = a.replaced[i]
		return &m
	case pdk.EditDropPart:
		var kept []pdk.Part
		for j, part := range m.Parts {
			if !slices.Contains(a.parts[i], j) {
				kept = append(kept, part)
			}
		}
		if m.Parts = kept; len(kept) > 0 {
			return &m
		}
	}
	return nil
}

// ApplyOutput returns messages after what a processor returned: {}, "messages"
// or "edits". It refuses what the contract forbids.
func ApplyOutput(messages []pdk.Message, output pdk.Raw) ([]pdk.Message, error) {
	if output.Kind() != pdk.KindObject || !output.Valid() {
		return nil, fmt.Errorf("answer is not a JSON object: %s", output)
	}
	whole, edits := output.Get("messages"), output.Get("edits")
	switch {
	case whole != "" && edits != "":
		return nil, fmt.Errorf("answer has both messages and edits")
	case whole != "":
		return pdk.ParseMessages(whole)
	case edits != "":
		list, err := ParseEdits(edits)
		if err != nil {
			return nil, err
		}
		return Apply(messages, list)
	}
	return messages, nil
}

// ParseEdits reads a JSON array of edits.
func ParseEdits(r pdk.Raw) ([]pdk.Edit, error) {
	if r.Kind() != pdk.KindArray || !r.Valid() {
		return nil, fmt.Errorf("edits are not an array: %s", r)
	}
	var out []pdk.Edit
	for element := range r.Elements() {
		e, err := parseEdit(element)
		if err != nil {
			return nil, fmt.Errorf("edit %d, %s: %w", len(out), element, err)
		}
		out = append(out, e)
	}
	return out, nil
}

func parseEdit(r pdk.Raw) (e pdk.Edit, err error) {
	members := 0
	for name, value := range r.Members() {
		members++
		switch name {
		case "drop":
			e.Kind = pdk.EditDrop
			e.At, e.To, err = pair(value)
		case "drop_part":
			e.Kind = pdk.EditDropPart
			e.At, e.Part, err = pair(value)
		case "insert":
			e.Kind = pdk.EditInsert
			e.At, e.Message, err = placed(value)
		case "replace":
			e.Kind = pdk.EditReplace
			e.At, e.Message, err = placed(value)
		default:
			err = fmt.Errorf("unknown kind of edit %q", name)
		}
		if err != nil {
			return e, err
		}
	}
	if members != 1 {
		return e, fmt.Errorf("an edit has one member, this has %d", members)
	}
	return e, nil
}

func pair(r pdk.Raw) (a, b int, err error) {
	var numbers []int
	for element := range r.Elements() {
		n, ok := element.Int()
		if !ok {
			return 0, 0, fmt.Errorf("%s is not an integer", element)
		}
		numbers = append(numbers, int(n))
	}
	if len(numbers) != 2 {
		return 0, 0, fmt.Errorf("%s is not a pair of integers", r)
	}
	return numbers[0], numbers[1], nil
}

func placed(r pdk.Raw) (at int, m *pdk.Message, err error) {
	index, ok := r.Get("at").Int()
	message := r.Get("message")
	if !ok || message == "" {
		return 0, nil, fmt.Errorf("at and message expected in %s", r)
	}
	for name := range r.Members() {
		if name != "at" && name != "message" {
			return 0, nil, fmt.Errorf("unknown member %q", name)
		}
	}
	list, err := pdk.ParseMessages("[" + message + "]")
	if err != nil {
		return 0, nil, err
	}
	return int(index), &list[0], nil
}
