package plugintest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// sameJSON reports whether two texts are the same JSON value.
func sameJSON(a, b json.RawMessage) bool { return diffJSON(a, b) == nil }

// maxDifferences bounds the reported differences.
const maxDifferences = 20

// diffJSON returns where two JSON values differ, each place by its pointer;
// nothing if they do not. Members may come in any order, and numbers are their
// text: 1.0 is not 1.
func diffJSON(want, got json.RawMessage) []string {
	w, err := decodeJSON(want)
	if err != nil {
		return []string{fmt.Sprintf("wanted is not JSON: %v", err)}
	}
	g, err := decodeJSON(got)
	if err != nil {
		return []string{fmt.Sprintf("it is not JSON: %v: %.200s", err, got)}
	}
	d := differ{}
	d.values("", w, g)
	return d.found
}

func decodeJSON(raw []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("there is more after the value")
	}
	return v, nil
}

type differ struct{ found []string }

func (d *differ) say(path, format string, args ...any) {
	if path == "" {
		path = "/"
	}
	switch n := len(d.found); {
	case n < maxDifferences:
		d.found = append(d.found, path+": "+fmt.Sprintf(format, args...))
	case n == maxDifferences:
		d.found = append(d.found, "and more")
	}
}

func (d *differ) values(path string, want, got any) {
	switch w := want.(type) {
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			d.objects(path, w, g)
			return
		}
	case []any:
		if g, ok := got.([]any); ok {
			d.arrays(path, w, g)
			return
		}
	default:
		if want == got {
			return
		}
	}
	d.say(path, "%s, want %s", text(got), text(want))
}

func (d *differ) objects(path string, want, got map[string]any) {
	var names []string
	for name := range want {
		names = append(names, name)
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		w, wanted := want[name]
		g, there := got[name]
		switch {
		case !there:
			d.say(path+"/"+name, "is missing, want %s", text(w))
		case !wanted:
			d.say(path+"/"+name, "%s, want nothing", text(g))
		default:
			d.values(path+"/"+name, w, g)
		}
	}
}

func (d *differ) arrays(path string, want, got []any) {
	if len(want) != len(got) {
		d.say(path, "%d elements, want %d", len(got), len(want))
	}
	for i := range min(len(want), len(got)) {
		d.values(fmt.Sprintf("%s/%d", path, i), want[i], got[i])
	}
}

// text returns a value as text for a difference.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("%.200s", b)
}
