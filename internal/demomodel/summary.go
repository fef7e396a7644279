package demomodel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agenthost/agenthost/host/scriptedmodel"
	"github.com/agenthost/agenthost/internal/toolschema"
)

// The bounds of a summary.
const (
	maxSummaryBytes = 4_000
	maxListed       = 5   // elements of an array, results of a batch past which only their number is given
	maxValueBytes   = 300 // of one value
	maxSummaryDepth = 3
)

// summarize puts tools' results into a sentence, or a list of them.
func summarize(results []scriptedmodel.Result) string {
	if len(results) == 1 {
		return clip(sentence(&results[0]), maxSummaryBytes)
	}
	var b strings.Builder
	for i := range results {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("- " + sentence(&results[i]))
		if b.Len() > maxSummaryBytes {
			break
		}
	}
	return clip(b.String(), maxSummaryBytes)
}

// sentence puts one result into a sentence.
func sentence(r *scriptedmodel.Result) string {
	name := r.Call.Name
	if name == "" {
		name = "the tool"
	}
	if said := argumentsOf(r); said != "" {
		name += " (" + said + ")"
	}
	if reason, failed := failure(r); failed {
		return name + " could not do that: " + period(shorten(reason))
	}
	v, err := toolschema.Decode(json.RawMessage(r.Text))
	if err != nil || strings.TrimSpace(r.Text) == "" {
		if text := strings.TrimSpace(r.Text); text != "" {
			return name + " says: " + period(text)
		}
		return name + " says nothing."
	}
	if object, ok := v.(map[string]any); ok {
		v = news(r, object)
	}
	return name + " says: " + period(describe(v, json.RawMessage(r.Text), 0))
}

// news returns the members of a result that do not repeat an argument, or all
// if there are no others.
func news(r *scriptedmodel.Result, object map[string]any) map[string]any {
	asked, _ := toolschema.Decode(json.RawMessage(r.Call.Arguments))
	arguments, _ := asked.(map[string]any)
	out := map[string]any{}
	for name, v := range object {
		if said, ok := arguments[name]; !ok || fmt.Sprint(said) != fmt.Sprint(v) {
			out[name] = v
		}
	}
	if len(out) == 0 {
		return object
	}
	return out
}

// argumentsOf describes the call's arguments, so that the reader can tell the
// results apart.
func argumentsOf(r *scriptedmodel.Result) string {
	var out []string
	eachMember(json.RawMessage(r.Call.Arguments), func(name string, value json.RawMessage) {
		if v, err := toolschema.Decode(value); err == nil && v != nil {
			out = append(out, words(name)+" "+shorten(describe(v, value, maxSummaryDepth)))
		}
	})
	return shorten(strings.Join(out, ", "))
}

// errorPrefix begins a result that is an error.
const errorPrefix = "Error: "

// failure returns the reason of a result that is an error: a text that begins
// with "Error: ", or an object with nothing but an error.
func failure(r *scriptedmodel.Result) (reason string, failed bool) {
	if reason, failed = strings.CutPrefix(r.Text, errorPrefix); failed {
		return reason, true
	}
	var only map[string]any
	if json.Unmarshal([]byte(r.Text), &only) != nil || len(only) != 1 || only["error"] == nil {
		return "", false
	}
	return fmt.Sprint(only["error"]), true
}

// describe puts a JSON value into words. raw is its text, for the order of its
// members.
func describe(v any, raw json.RawMessage, depth int) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case bool:
		if v {
			return "yes"
		}
		return "no"
	case string:
		if v == "" {
			return "nothing"
		}
		return shorten(v)
	case json.Number:
		return v.String()
	case []any:
		return describeArray(v, raw, depth)
	case map[string]any:
		return describeObject(v, raw, depth)
	}
	return fmt.Sprint(v)
}

func describeArray(list []any, raw json.RawMessage, depth int) string {
	if len(list) == 0 {
		return "none"
	}
	count := fmt.Sprintf("%d entries", len(list))
	if len(list) == 1 {
		count = "1 entry"
	}
	if depth >= maxSummaryDepth {
		return count
	}
	var elements []json.RawMessage
	json.Unmarshal(raw, &elements)
	var out []string
	for i, e := range list {
		if i == maxListed {
			out = append(out, fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		out = append(out, describe(e, elements[i], depth+1))
	}
	return count + " (" + strings.Join(out, "; ") + ")"
}

func describeObject(object map[string]any, raw json.RawMessage, depth int) string {
	if len(object) == 0 {
		return "nothing"
	}
	if depth >= maxSummaryDepth {
		return fmt.Sprintf("%d fields", len(object))
	}
	var out []string
	eachMember(raw, func(name string, value json.RawMessage) {
		if v, ok := object[name]; ok {
			out = append(out, words(name)+": "+describe(v, value, depth+1))
		}
	})
	text := strings.Join(out, ", ")
	if depth > 0 {
		return "(" + text + ")"
	}
	return text
}

// eachMember calls fn for the members of a JSON object in their order; for
// anything else not at all.
func eachMember(raw json.RawMessage, fn func(name string, value json.RawMessage)) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return
		}
		fn(name.(string), value)
	}
}

// words makes a member's name readable: order_id is order id.
func words(name string) string {
	if w := strings.Join(splitWords(name), " "); w != "" {
		return w
	}
	return name
}

func shorten(s string) string { return clip(strings.Join(strings.Fields(s), " "), maxValueBytes) }

func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

func period(s string) string {
	if strings.HasSuffix(s, ".") || strings.HasSuffix(s, "!") || strings.HasSuffix(s, "?") || strings.HasSuffix(s, "…") {
		return s
	}
	return s + "."
}
