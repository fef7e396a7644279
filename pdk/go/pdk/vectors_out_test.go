package pdk_test

// Scenario: the golden vectors of a guest's answers.

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/pdk/go/pdk"
	"github.com/agenthost/agenthost/pdk/go/pdktest"
)

// TestToolResultVectors writes each valid result through the kit.
func TestToolResultVectors(t *testing.T) {
	validVectors(t, "tool", "tool_result", func(t *testing.T, document pdk.Raw) {
		var p pdk.Plugin
		p.Tool("f", "", "", func(c *pdk.Call) error {
			if ask := document.Get("interrupt"); ask != "" {
				reason, _ := ask.Get("reason").Str()
				c.Interrupt(reason, ask.Get("data"))
				return nil
			}
			c.Return(document.Get("content"))
			for op := range document.Get("state").Elements() {
				kind, _ := op.Get("op").Str()
				path, _ := op.Get("path").Str()
				from, _ := op.Get("from").Str()
				c.Patch(pdk.PatchOp{Op: kind, Path: path, From: from, Value: op.Get("value")})
			}
			if list := document.Get("media"); list != "" {
				for _, part := range parts(t, list) {
					c.Media(part)
				}
			}
			for a := range document.Get("artifacts").Elements() {
				name, _ := a.Get("name").Str()
				c.Artifact(name, a.Get("metadata"), parts(t, a.Get("parts"))...)
			}
			for agent := range document.Get("schedule").Elements() {
				name, _ := agent.Str()
				c.Schedule(name)
			}
			return nil
		})
		host := pdktest.Host{Plugin: &p}
		requireSame(t, host.Run(t, "tool", `{"tool":"f"}`), document)
	})
}

func parts(t *testing.T, list pdk.Raw) []pdk.Part {
	t.Helper()
	messages, err := pdk.ParseMessages(`[{"role":"user","parts":` + list + `}]`)
	if err != nil {
		t.Fatal(err)
	}
	return messages[0].Parts
}

// TestProcessOutVectors reads each answer with pdktest, and writes the valid
// ones through the kit.
func TestProcessOutVectors(t *testing.T) {
	vectors(t, "process", "process_out", func(t *testing.T, v *vector, document pdk.Raw) {
		var edits []pdk.Edit
		var err error
		if raw := document.Get("edits"); raw != "" {
			edits, err = pdktest.ParseEdits(raw)
		}
		if whole := document.Get("messages"); err == nil && whole != "" {
			_, err = pdktest.ApplyOutput(nil, document)
		}
		if !v.Valid {
			if err == nil {
				t.Errorf("pdktest accepts %s", document)
			}
			return
		}
		if err != nil {
			t.Fatalf("pdktest refuses %s: %v", document, err)
		}
		if document.Get("messages") != "" {
			return // the kit writes edits only
		}
		requireSame(t, written(t, edits, document.Get("report")), withoutEmptyEdits(t, document))
	})
}

// written returns what a processor that makes the edits answers.
func written(t *testing.T, edits []pdk.Edit, report pdk.Raw) pdk.Raw {
	t.Helper()
	var p pdk.Plugin
	p.Processor("p", func(c *pdk.Process) error {
		for _, e := range edits {
			switch e.Kind {
			case pdk.EditDrop:
				c.Drop(e.At, e.To)
			case pdk.EditDropPart:
				c.DropPart(e.At, e.Part)
			case pdk.EditInsert:
				c.Insert(e.At, *e.Message)
			case pdk.EditReplace:
				c.Replace(e.At, *e.Message)
			}
		}
		if report != "" {
			c.Report(report)
		}
		return nil
	})
	host := pdktest.Host{Plugin: &p}
	return host.Run(t, "process", `{"processor":"p","messages":[]}`)
}

func withoutEmptyEdits(t *testing.T, document pdk.Raw) pdk.Raw {
	if document.Get("edits") == "[]" {
		return pruned(t, document, []string{"report.*"})
	}
	return document
}

// message makes the message that a label of an apply vector stands for.
func message(label string) pdk.Message {
	m := pdk.Message{ID: label, Role: pdk.RoleUser, CreatedAt: "2026-01-02T03:04:05Z"}
	for _, text := range strings.Split(label, "|") {
		m.Parts = append(m.Parts, pdk.TextPart(text))
	}
	return m
}

func label(m *pdk.Message) string {
	var texts []string
	for _, p := range m.Parts {
		texts = append(texts, p.Text)
	}
	return strings.Join(texts, "|")
}

func TestApplyVectors(t *testing.T) {
	vectors(t, "apply", "apply", func(t *testing.T, v *vector, document pdk.Raw) {
		var messages []pdk.Message
		for m := range document.Get("messages").Elements() {
			text, _ := m.Str()
			messages = append(messages, message(text))
		}
		edits, err := pdktest.ParseEdits(withMessages(t, document.Get("edits")))
		if err != nil {
			t.Fatal(err)
		}
		after, err := pdktest.Apply(messages, edits)
		if !v.Valid {
			if err == nil {
				t.Errorf("Apply accepts %s", document)
			}
			return
		}
		if err != nil {
			t.Fatalf("Apply: %v", err)
		}
		got := []string{}
		for i := range after {
			got = append(got, label(&after[i]))
		}
		want := []string{}
		for m := range document.Get("want").Elements() {
			text, _ := m.Str()
			want = append(want, text)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// withMessages puts messages in the place of their labels.
func withMessages(t *testing.T, edits pdk.Raw) pdk.Raw {
	list := value(t, []byte(edits)).([]any)
	for _, e := range list {
		for _, name := range []string{"insert", "replace"} {
			if placed, ok := e.(map[string]any)[name].(map[string]any); ok {
				m := message(placed["message"].(string))
				placed["message"] = json.RawMessage(m.Raw())
			}
		}
	}
	out, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return pdk.Raw(out)
}

func TestOutlineVectors(t *testing.T) {
	vectors(t, "outline", "outline", func(t *testing.T, _ *vector, document pdk.Raw) {
		messages, err := pdk.ParseMessages(document.Get("messages"))
		if err != nil {
			t.Fatal(err)
		}
		requireSame(t, pdktest.EncodeOutline(pdktest.NewOutline(messages, nil)), document.Get("outline"))
	})
}

func TestRouteOutVectors(t *testing.T) {
	validVectors(t, "route", "route_out", func(t *testing.T, document pdk.Raw) {
		var p pdk.Plugin
		p.Router("r", func(r *pdk.Route) error {
			for agent := range document.Get("next").Elements() {
				name, _ := agent.Str()
				r.Next(name)
			}
			if to, ok := document.Get("delegate").Str(); ok {
				r.Delegate(to)
			}
			if why, ok := document.Get("reason").Str(); ok {
				r.Reason(why)
			}
			return nil
		})
		host := pdktest.Host{Plugin: &p}
		requireSame(t, host.Run(t, "route", `{"router":"r"}`), document)
	})
}

func TestProvideOutVectors(t *testing.T) {
	validVectors(t, "provide", "provide_out", func(t *testing.T, document pdk.Raw) {
		var p pdk.Plugin
		p.Provider("p", func(c *pdk.Provide) error {
			if text, ok := document.Get("instructions").Str(); ok {
				for _, line := range strings.Split(text, "\n") {
					c.Instruct(line)
				}
			}
			if list := document.Get("messages"); list != "" {
				messages, err := pdk.ParseMessages(list)
				if err != nil {
					return err
				}
				for _, m := range messages {
					c.Insert(m)
				}
			}
			if store, _ := document.Get("store").Bool(); store {
				c.Store()
			}
			for tool := range document.Get("tools").Elements() {
				name, _ := tool.Str()
				c.Tools(name)
			}
			return nil
		})
		host := pdktest.Host{Plugin: &p}
		requireSame(t, host.Run(t, "provide", `{"provider":"p"}`), document)
	})
}

// TestErrorVectors returns each valid error from a handler, and has each read by
// the fake host.
func TestErrorVectors(t *testing.T) {
	validVectors(t, "error", "error", func(t *testing.T, document pdk.Raw) {
		code, _ := document.Get("code").Str()
		sentence, _ := document.Get("message").Str()
		hint, _ := document.Get("hint").Str()
		retryable, _ := document.Get("retryable").Bool()
		want := pdk.Error{Code: pdk.Code(code), Message: sentence, Hint: hint, Retryable: retryable}
		var p pdk.Plugin
		p.Tool("f", "", "", func(*pdk.Call) error { return &want })
		out, status := p.Call("tool", []byte(`{"tool":"f"}`))
		if status != 1 {
			t.Fatalf("status %d: %s", status, out)
		}
		requireSame(t, pdk.Raw(out), pruned(t, document, []string{"code", "message", "hint", "retryable"}))
		host := pdktest.Host{Plugin: &p}
		if got := host.ToolError(t, "f", "{}"); *got != want {
			t.Errorf("got %+v, want %+v", *got, want)
		}
	})
}

// TestManifestVectors registers what the fullest manifest lists and compares
// what the kit writes of it.
func TestManifestVectors(t *testing.T) {
	plugins := map[string]func() *pdk.Plugin{"full": fullPlugin, "resources and prompts": offeringPlugin, "operations of the host's program": chargingPlugin}
	vectorsThat(t, "manifest", "manifest", func(v *vector) bool { return plugins[v.Name] != nil }, func(t *testing.T, v *vector, document pdk.Raw) {
		host := pdktest.Host{Plugin: plugins[v.Name]()}
		requireSame(t, withoutEmptyPermissions(host.Run(t, "describe", "")), document)
	})
}

// withoutEmptyPermissions leaves out the permissions of a plugin that asks for none.
func withoutEmptyPermissions(manifest pdk.Raw) pdk.Raw {
	return pdk.Raw(strings.Replace(string(manifest), `,"permissions":{}`, "", 1))
}

func chargingPlugin() *pdk.Plugin {
	var p pdk.Plugin
	p.Describe(pdk.Manifest{Name: "p", Permissions: pdk.Permissions{Operations: []string{"billing.charge", "crm.contact.find"}}})
	return &p
}

func offeringPlugin() *pdk.Plugin {
	var p pdk.Plugin
	p.Describe(pdk.Manifest{Name: "shop"})
	p.OfferResource(pdk.Resource{URI: "shop://terms", Name: "terms", Title: "Terms", Description: "What holds for every order.", MediaType: "text/markdown", Text: "# Terms"})
	p.OfferResource(pdk.Resource{URI: "shop://orders/{id}", Name: "order", Tool: "order"})
	p.OfferPrompt(pdk.Prompt{Name: "complaint", Title: "Complaint", Description: "A letter about an order.",
		Arguments: []pdk.PromptArgument{{Name: "order", Description: "Its number.", Required: true}, {Name: "tone"}},
		Text:      "Write a {{.arguments.tone}} letter about order {{.arguments.order}}."})
	p.OfferPrompt(pdk.Prompt{Name: "reply", Tool: "letter"})
	p.Tool("order", "An order.", `{"type":"object","properties":{"uri":{"type":"string"}},"required":["uri"]}`, nil).ReadOnly = true
	p.Tool("letter", "A letter.", `{"type":"object"}`, nil)
	return &p
}

func fullPlugin() *pdk.Plugin {
	var p pdk.Plugin
	p.Describe(pdk.Manifest{
		Name: "weather", Version: "1.2.0", Description: "Weather and what to wear.",
		Requires: []string{"emit", "state.get"},
		Permissions: pdk.Permissions{
			HTTP: []pdk.HTTPPermission{
				{Host: "api.example.com", Port: 8443, Methods: []string{"GET", "POST"}},
				{Host: "example.org"},
			},
			KV: pdk.AccessRead, Secrets: []pdk.SecretPermission{{Name: "WEATHER_KEY", Hosts: []string{"api.example.com"}}},
			Model: true, Messages: true, Queue: true, Clock: true, Random: true, State: pdk.AccessWrite,
		},
	})
	forecast := p.Tool("forecast", "The weather of the next days.",
		`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`, nil)
	forecast.Result, forecast.ReadOnly, forecast.Idempotent = `{"type":"object"}`, true, true
	p.Tool("order_umbrella", "Buys an umbrella.", "", nil).NeedsApproval = true

	shorten := p.OutlineProcessor("shorten", nil)
	shorten.Tokens.ConfigKey = "encoding"
	shorten.Config = `{"type":"object","properties":{"encoding":{"type":"string"}}}`
	p.OutlineProcessor("fixed", nil).Tokens.Encoding = "cl100k_base"
	p.OutlineProcessor("fit", nil).Tokens.Model = true
	p.OutlineProcessor("bare", nil)
	p.Processor("mask", nil)

	p.Router("triage", nil).Config = `{"type":"object"}`
	p.Router("turns", nil)
	p.Provider("almanac", func(*pdk.Provide) error { return nil }).Config = `{"type":"object"}`
	p.Observer("almanac", func(*pdk.Observe) error { return nil })
	p.Provider("season", func(*pdk.Provide) error { return nil })
	return &p
}
