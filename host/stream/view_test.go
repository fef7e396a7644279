package stream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/stream"
)

// patched yields events that change a state, the first as a run begins: by
// replacing the whole.
func patched(patches ...string) iter.Seq2[host.Event, error] {
	return func(yield func(host.Event, error) bool) {
		for i, raw := range patches {
			var ops []host.PatchOp
			if err := json.Unmarshal([]byte(raw), &ops); err != nil {
				yield(host.Event{}, err)
				return
			}
			if !yield(host.Event{Seq: int64(i), Run: "r", Data: &runevent.StatePatched{Ops: ops}}, nil) {
				return
			}
		}
	}
}

func whole(doc string) string { return `[{"op":"replace","path":"","value":` + doc + `}]` }

func newView(t interface{ Fatal(...any) }, opts *stream.ViewOptions) *stream.View {
	v, err := stream.NewView(opts)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// shown returns the patches that clients see, with their numbers.
func shown(t *testing.T, v *stream.View, events iter.Seq2[host.Event, error]) []string {
	t.Helper()
	var out []string
	for ev, err := range v.Events(t.Context(), events) {
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(ev.Data.(*runevent.StatePatched).Ops)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprint(ev.Seq, " ", string(raw)))
	}
	return out
}

func TestAViewShowsDifferencesOfWhatIsSeen(t *testing.T) {
	hidden := &stream.ViewOptions{Hide: []string{"/custom/sec"}}
	pub := &stream.ViewOptions{State: func(_ context.Context, d *host.Document) (*host.Document, error) {
		var s struct{ Pub json.Number }
		if err := json.Unmarshal(d.JSON(), &s); err != nil {
			return nil, err
		}
		return host.ReadDocument(json.RawMessage(`{"pub":` + s.Pub.String() + `}`))
	}}
	changes, hiddenChanges := &stream.ViewOptions{OnlyChanges: true}, &stream.ViewOptions{OnlyChanges: true, Hide: []string{"/custom/sec"}}
	for _, c := range []struct {
		name    string
		opts    *stream.ViewOptions
		patches []string
		want    []string
	}{
		{"only changes: nothing without one", changes, []string{whole(`{"n":1}`)}, nil},
		{"only changes: the first replaces the whole, the others are one patch each", changes,
			[]string{whole(`{"n":1}`), `[{"op":"replace","path":"/n","value":2}]`, `[{"op":"replace","path":"/n","value":3}]`, `[{"op":"add","path":"/m","value":4}]`},
			[]string{"0 " + whole(`{"n":2}`), `1 [{"op":"replace","path":"/n","value":3}]`, `2 [{"op":"add","path":"/m","value":4}]`}},
		{"only changes: a hidden one is none", hiddenChanges,
			[]string{whole(`{"n":1,"sec":1}`), `[{"op":"replace","path":"/sec","value":2}]`, `[{"op":"replace","path":"/n","value":2}]`, `[{"op":"replace","path":"/sec","value":3}]`},
			[]string{"0 " + whole(`{"n":2}`)}},
		{"a change of what is hidden alone is not told", hidden,
			[]string{whole(`{"pub":1,"sec":"S"}`), `[{"op":"replace","path":"/sec","value":"T"}]`, `[{"op":"replace","path":"/pub","value":2}]`},
			[]string{"0 " + whole(`{"pub":1}`), `1 [{"op":"replace","path":"/pub","value":2}]`}},
		{"nor by a function", pub,
			[]string{whole(`{"pub":1,"sec":"S"}`), `[{"op":"replace","path":"/sec","value":"T"}]`, `[{"op":"replace","path":"/pub","value":9007199254740993}]`},
			[]string{"0 " + whole(`{"pub":1}`), `1 [{"op":"replace","path":"/pub","value":9007199254740993}]`}},
		{"a change around what is hidden", hidden,
			[]string{whole(`{"sec":1,"a":2}`), whole(`{"sec":{"x":1},"a":2,"b":3}`)},
			[]string{"0 " + whole(`{"a":2}`), `1 [{"op":"add","path":"/b","value":3}]`}},
		{"what is hidden moves with its array", &stream.ViewOptions{Hide: []string{"/custom/list/0/sec"}},
			[]string{whole(`{"list":[{"sec":1,"n":1}]}`), `[{"op":"add","path":"/list/0","value":{"sec":2,"n":2}}]`},
			[]string{"0 " + whole(`{"list":[{"n":1}]}`), `1 [{"op":"replace","path":"/list/0/n","value":2},{"op":"add","path":"/list/-","value":{"n":1,"sec":1}}]`}},
		{"a name that begins alike is seen", hidden,
			[]string{whole(`{}`), `[{"op":"add","path":"/second","value":1}]`},
			[]string{"0 " + whole(`{}`), `1 [{"op":"add","path":"/second","value":1}]`}},
		{"what is moved out is seen", hidden,
			[]string{whole(`{"sec":1}`), `[{"op":"move","from":"/sec","path":"/told"}]`},
			[]string{"0 " + whole(`{}`), `1 [{"op":"add","path":"/told","value":1}]`}},
		{"all of it", &stream.ViewOptions{Hide: []string{"/custom"}},
			[]string{whole(`{"a":1}`), `[{"op":"remove","path":"/a"}]`}, []string{"0 " + whole(`{}`)}},
	} {
		if got := shown(t, newView(t, c.opts), patched(c.patches...)); !slices.Equal(got, c.want) {
			t.Errorf("%s: clients see\n%s\nwant\n%s", c.name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

func TestAViewFailsClosed(t *testing.T) {
	secret := errors.New("the password is 1234")
	for name, opts := range map[string]*stream.ViewOptions{
		"state fails":  {State: func(context.Context, *host.Document) (*host.Document, error) { return nil, secret }},
		"state panics": {State: func(context.Context, *host.Document) (*host.Document, error) { panic(secret) }},
		"state is none": {State: func(context.Context, *host.Document) (*host.Document, error) {
			return host.ReadDocument(json.RawMessage(`"1234"`))
		}},
		"state is nothing": {State: func(context.Context, *host.Document) (*host.Document, error) { return nil, nil }},
		"events fail":      {Event: func(_ context.Context, ev host.Event) (host.Event, bool, error) { return ev, true, secret }},
		"events panic": {Event: func(_ context.Context, ev host.Event) (host.Event, bool, error) {
			panic(secret)
		}},
	} {
		n := 0
		var last error
		for _, err := range newView(t, opts).Events(t.Context(), patched(whole(`{}`), whole(`{"a":1}`))) {
			n++
			last = err
		}
		if n != 1 || host.CodeOf(last) != host.Internal || strings.Contains(last.Error(), "1234") {
			t.Errorf("%s: %d events, %v; want internal, without what went wrong", name, n, last)
		}
		if opts.State != nil {
			if got, err := newView(t, opts).State(t.Context(), json.RawMessage(`{"a":1}`)); host.CodeOf(err) != host.Internal {
				t.Errorf("%s: State = %s, %v", name, got, err)
			}
		}
	}
}

func TestAViewOfEvents(t *testing.T) {
	v := newView(t, &stream.ViewOptions{Hide: []string{"/artifacts"}, Event: func(_ context.Context, ev host.Event) (host.Event, bool, error) {
		if d, ok := ev.Data.(*runevent.TextDelta); ok {
			ev.Data = &runevent.TextDelta{Text: strings.ToUpper(d.Text)}
		}
		_, reasoning := ev.Data.(*runevent.ReasoningDelta)
		return ev, !reasoning, nil
	}})
	var got []string
	for ev, err := range v.Events(t.Context(), func(yield func(host.Event, error) bool) {
		for i, d := range []host.EventData{&runevent.ReasoningDelta{Text: "x"}, &runevent.TextDelta{Text: "hi"}, &runevent.ArtifactMade{}, &runevent.RunFinished{Result: &host.RunResult{}}} {
			if !yield(host.Event{Seq: int64(i), Data: d}, nil) {
				return
			}
		}
	}) {
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := json.Marshal(ev.Data)
		got = append(got, fmt.Sprint(ev.Seq, ev.Data.Type(), string(raw)))
		if d, ok := ev.Data.(*runevent.RunFinished); ok && d.Result != nil {
			t.Error("the result is shown whole")
		}
	}
	if len(got) != 2 || got[0] != `0text.delta{"text":"HI"}` || !strings.HasPrefix(got[1], "1run.finished") {
		t.Errorf("clients see %q", got)
	}
}

// A message is seen in one way wherever it is shown, and what its provider has
// answered is not shown beside it.
func TestAViewOfMessages(t *testing.T) {
	secret := errors.New("the password is 1234")
	v := newView(t, &stream.ViewOptions{Message: func(_ context.Context, m *host.Message) (*host.Message, error) {
		switch {
		case m.Role == host.ToolRole:
			return nil, nil
		case m.Text() == "fail":
			return nil, secret
		case m.Text() == "panic":
			panic(secret)
		}
		m = m.Clone()
		m.Parts = []host.Part{&host.Text{Text: strings.ToUpper(m.Text())}}
		return m, nil
	}})
	said := host.UserText("hi")
	see := func(m *host.Message) (out []string, err error) {
		events := func(yield func(host.Event, error) bool) {
			yield(host.Event{Data: &runevent.MessageDone{Message: m, Raw: json.RawMessage(`"hi"`)}}, nil)
		}
		for ev, err := range v.Events(t.Context(), events) {
			if err != nil {
				return nil, err
			}
			d := ev.Data.(*runevent.MessageDone)
			out = append(out, d.Message.Text()+string(d.Raw))
		}
		return out, nil
	}
	for name, c := range map[string]struct {
		message *host.Message
		want    []string
		code    host.Code
	}{
		"shown otherwise": {said, []string{"HI"}, ""},
		"hidden":          {&host.Message{Role: host.ToolRole}, nil, ""},
		"fails":           {host.UserText("fail"), nil, host.Internal},
		"panics":          {host.UserText("panic"), nil, host.Internal},
	} {
		got, err := see(c.message)
		if !slices.Equal(got, c.want) || host.CodeOf(err) != c.code || err != nil && strings.Contains(err.Error(), "1234") {
			t.Errorf("%s: an event shows %q, %v", name, got, err)
		}
		list, err := v.Messages(t.Context(), []*host.Message{c.message})
		if len(list) != len(c.want) || host.CodeOf(err) != c.code || len(list) > 0 && list[0].Text() != c.want[0] {
			t.Errorf("%s: a list shows %v, %v", name, list, err)
		}
	}
	if said.Text() != "hi" {
		t.Errorf("the message itself is %q by now", said.Text())
	}
}

func TestBadPointersAreRefused(t *testing.T) {
	for _, p := range []string{"", "/", "custom/a", "/customs", "/messages", "/custom/~", "/custom/a~2", "/artifacts/0"} {
		if _, err := stream.NewView(&stream.ViewOptions{Hide: []string{p}}); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("hide %q: %v, want invalid_argument", p, err)
		}
	}
}

// Whatever changes, who applies what the view sends has what it may see, and
// nothing of what it may not.
func TestWhatClientsHaveIsTheView(t *testing.T) {
	paths := []string{"/a", "/sec", "/sec/x", "/b", "/b/sec", "/b/c", "/list", "/list/0", "/list/1", "/list/-", "/list/1/sec", ""}
	rapid.Check(t, func(t *rapid.T) {
		hide := rapid.SliceOfN(rapid.SampledFrom([]string{"/custom/sec", "/custom/b/sec", "/custom/list/1/sec", "/custom/list/0", "/custom/b"}), 0, 3).Draw(t, "hide")
		v := newView(t, &stream.ViewOptions{Hide: hide})
		doc, _ := host.ReadDocument(json.RawMessage(`{"a":1,"sec":{"x":1},"b":{"sec":2,"c":3},"list":[{"sec":4},{"sec":5}]}`))
		patches := []string{whole(string(doc.JSON()))}
		docs := []*host.Document{doc}
		for range rapid.IntRange(0, 10).Draw(t, "changes") {
			op := host.PatchOp{Op: rapid.SampledFrom([]string{"add", "replace", "remove", "move", "copy"}).Draw(t, "op"),
				Path: rapid.SampledFrom(paths).Draw(t, "path"), From: rapid.SampledFrom(paths).Draw(t, "from"),
				Value: json.RawMessage(rapid.SampledFrom([]string{"1", `{"sec":7,"c":8}`, `[{"sec":9},[],{}]`}).Draw(t, "value"))}
			next, err := doc.Patch([]host.PatchOp{op})
			if err != nil || !next.IsObject() {
				continue
			}
			doc = next
			raw, _ := json.Marshal([]host.PatchOp{op})
			patches, docs = append(patches, string(raw)), append(docs, doc)
		}
		client, _ := host.ReadDocument(json.RawMessage("{}"))
		at := 0
		events := func(yield func(host.Event, error) bool) {
			for ev, err := range patched(patches...) {
				if !yield(ev, err) {
					return
				}
				want, _ := v.State(t.Context(), docs[at].JSON())
				if string(client.JSON()) != string(want) {
					t.Fatalf("after %s clients have %s, want %s", patches[at], client.JSON(), want)
				}
				at++
			}
		}
		for ev, err := range v.Events(t.Context(), events) {
			if err != nil {
				t.Fatal(err)
			}
			if client, err = client.Patch(ev.Data.(*runevent.StatePatched).Ops); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestBriefEventsComeBack(t *testing.T) {
	read, enc := stream.ReadBrief(), stream.Brief()
	for i, d := range []host.EventData{&runevent.RunStarted{Thread: "t"}, &runevent.TextDelta{Text: "hi"}, &runevent.StatePatched{Ops: []host.PatchOp{{Op: "remove", Path: "/a"}}}} {
		ev := host.Event{Seq: int64(i), Run: "r", Network: "n", Agent: []string{"", "a", "b"}[i], Data: d}
		frames, err := enc.Encode(nil, ev)
		if err != nil || len(frames) != 1 {
			t.Fatalf("Encode = %v, %v", frames, err)
		}
		got, err := read(frames[0].Data)
		want, _ := json.Marshal(ev)
		raw, _ := json.Marshal(got)
		if err != nil || string(raw) != string(want) {
			t.Errorf("%s is read as %s, %v; want %s", frames[0].Data, raw, err, want)
		}
		if i > 0 && len(frames[0].Data) > 90 {
			t.Errorf("%s has %d bytes", frames[0].Data, len(frames[0].Data))
		}
	}
	if _, err := read(json.RawMessage(`{"seq":7,"type":"text.delta","data":{"text":"x"}}`)); host.CodeOf(err) != host.DataLoss {
		t.Errorf("an event that is missing is %v, want data_loss", err)
	}
}
