package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/internal/longtest"
)

// patching returns a tool that says when it has begun, waits to be told and
// returns a patch.
func patching(t testing.TB, name string, ops []host.PatchOp, begun chan<- struct{}, wait <-chan struct{}) *host.Tool {
	t.Helper()
	tool, err := host.NewRawTool(llm.ToolSpec{Name: name}, func(ctx context.Context, _ *host.Call) (*host.ToolOutput, error) {
		begun <- struct{}{}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return &host.ToolOutput{State: ops}, nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

// patchAtOnce runs two tools at one time on a state, and has the first return its
// patch, then the second. It returns the state and what the second's call is told
// if it fails.
func patchAtOnce(t testing.TB, state string, first, second []host.PatchOp) (after, failure string) {
	t.Helper()
	begun, one, two := make(chan struct{}, 2), make(chan struct{}), make(chan struct{})
	model := hosttest.NewModel(hosttest.Call("one", "{}").Call("two", "{}"))
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Model: model, MaxRounds: 1, Tools: []*host.Tool{
		patching(t, "one", first, begun, one), patching(t, "two", second, begun, two)}})
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(&host.Options{SingleTenant: true})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-begun
		<-begun
		close(one)
	}()
	for ev, err := range h.Stream(context.Background(), agent, &host.Request{Text: "go", State: json.RawMessage(state)}) {
		if err != nil {
			t.Fatal(err)
		}
		switch d := ev.Data.(type) {
		case *runevent.ToolFinished:
			if d.Name == "one" {
				if d.IsError {
					t.Fatalf("the first patch does not apply: %s", d.Content)
				}
				close(two)
			} else if d.IsError {
				failure = string(d.Content)
			}
		case *runevent.RunFinished:
			after = string(d.Result.State)
		}
	}
	return after, failure
}

// op reads "add /a/b 1", "remove /a" or "move /a /b".
func op(t testing.TB, text string) host.PatchOp {
	t.Helper()
	words := strings.SplitN(text, " ", 3)
	switch o := (host.PatchOp{Op: words[0], Path: words[1]}); o.Op {
	case "add", "replace", "test":
		o.Value = json.RawMessage(words[2])
		return o
	case "move", "copy":
		o.From, o.Path = words[1], words[2]
		return o
	default:
		return o
	}
}

func ops(t testing.TB, texts ...string) []host.PatchOp {
	t.Helper()
	out := make([]host.PatchOp, len(texts))
	for i, text := range texts {
		out[i] = op(t, text)
	}
	return out
}

// Tools that run at one time and return patches: what one would undo of another's
// is a conflict, and nothing else is.
func TestPatchesOfToolsThatRunAtOnce(t *testing.T) {
	const state = `{"n":1,"o":{"a":1,"b":2},"l":[1,2,3],"m":[[1],[2]]}`
	for name, c := range map[string]struct {
		first, second []string
		want          string // empty: a conflict
	}{
		"two members":                        {[]string{"replace /n 2"}, []string{"add /x 1"}, `{"l":[1,2,3],"m":[[1],[2]],"n":2,"o":{"a":1,"b":2},"x":1}`},
		"the same value":                     {[]string{"replace /n 2"}, []string{"replace /n 3"}, ""},
		"the same new member":                {[]string{"add /x 1"}, []string{"add /x 2"}, ""},
		"a value and what is around it":      {[]string{"replace /o/a 2"}, []string{"replace /o {}"}, ""},
		"a value and what is in it":          {[]string{"replace /o {}"}, []string{"add /o/c 2"}, ""},
		"members of one object":              {[]string{"replace /o/a 2"}, []string{"remove /o/b"}, `{"l":[1,2,3],"m":[[1],[2]],"n":1,"o":{"a":2}}`},
		"names that begin alike":             {[]string{"add /no 2"}, []string{"replace /n 3"}, `{"l":[1,2,3],"m":[[1],[2]],"n":3,"no":2,"o":{"a":1,"b":2}}`},
		"both append":                        {[]string{"add /l/- 4"}, []string{"add /l/- 5"}, `{"l":[1,2,3,4,5],"m":[[1],[2]],"n":1,"o":{"a":1,"b":2}}`},
		"one appends, one changes":           {[]string{"add /l/- 4"}, []string{"replace /l/0 5"}, `{"l":[5,2,3,4],"m":[[1],[2]],"n":1,"o":{"a":1,"b":2}}`},
		"one removes, one appends":           {[]string{"remove /l/0"}, []string{"add /l/- 5"}, `{"l":[2,3,5],"m":[[1],[2]],"n":1,"o":{"a":1,"b":2}}`},
		"one appends, one removes":           {[]string{"add /l/- 5"}, []string{"remove /l/0"}, `{"l":[2,3,5],"m":[[1],[2]],"n":1,"o":{"a":1,"b":2}}`},
		"one removes, one changes":           {[]string{"remove /l/0"}, []string{"replace /l/1 5"}, ""},
		"both remove":                        {[]string{"remove /l/0"}, []string{"remove /l/2"}, ""},
		"one removes, one changes below":     {[]string{"remove /m/0"}, []string{"add /m/1/- 5"}, ""},
		"one appends to what one removes":    {[]string{"add /m/1/- 5"}, []string{"remove /m"}, ""},
		"one appends, one replaces the list": {[]string{"add /l/- 4"}, []string{"replace /l []"}, ""},
		"its own element, after an append":   {[]string{"add /l/- 4"}, []string{"add /l/- 5", "replace /l/3 6"}, ""},
		"moves what has changed":             {[]string{"replace /n 2"}, []string{"move /n /p"}, ""},
		"copies what has changed":            {[]string{"replace /n 2"}, []string{"copy /n /p"}, ""},
		"changes what was copied":            {[]string{"copy /n /p"}, []string{"replace /n 2"}, `{"l":[1,2,3],"m":[[1],[2]],"n":2,"o":{"a":1,"b":2},"p":1}`},
		"tests what has changed":             {[]string{"replace /n 2"}, []string{"test /n 1", "add /x 1"}, ""},
		"the whole state":                    {[]string{"add /x 1"}, []string{"replace  {}"}, ""},
		"nothing":                            {[]string{"replace /n 2"}, nil, `{"l":[1,2,3],"m":[[1],[2]],"n":2,"o":{"a":1,"b":2}}`},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := ops(t, c.first...), ops(t, c.second...)
			after, failure := patchAtOnce(t, state, first, second)
			if c.want == "" {
				if failure == "" {
					t.Errorf("%q after %q is no conflict; the state is %s", c.second, c.first, after)
				}
				if want, _ := patchAtOnce(t, state, first, nil); after != want {
					t.Errorf("the state is %s; want what the first alone leaves, %s", after, want)
				}
				return
			}
			if failure != "" || after != c.want {
				t.Errorf("%q after %q: %s, state\n%s, want\n%s", c.second, c.first, failure, after, c.want)
			}
		})
	}
}

func TestWhatAModelIsToldOfAConflict(t *testing.T) {
	_, told := patchAtOnce(t, `{"n":1}`, ops(t, "replace /n 2"), ops(t, "replace /n 3"))
	const want = `"The state at \"/n\" was changed by another call while this one ran; call the tool again."`
	if told != want {
		t.Errorf("the model is told %s, want %s", told, want)
	}
}

// Whatever two patches are: if the second is not refused, it is as if it had come
// first.
func TestPatchesThatAreNoConflictMayComeInEitherOrder(t *testing.T) {
	const state = `{"n":1,"o":{"a":1,"l":[7,8]},"l":[1,2,3],"m":[[1],[2,[3]]]}`
	pointer := rapid.SampledFrom([]string{"/n", "/x", "/o", "/o/a", "/o/b", "/o/l", "/o/l/0", "/o/l/1", "/o/l/-", "/l", "/l/0", "/l/1", "/l/2", "/l/3", "/l/-",
		"/m", "/m/0", "/m/1", "/m/-", "/m/0/0", "/m/0/-", "/m/1/0", "/m/1/1", "/m/1/1/0", "/m/1/1/-"})
	patch := rapid.Custom(func(t *rapid.T) []host.PatchOp {
		var out []host.PatchOp
		s := mustState(state)
		for i := range rapid.IntRange(1, 3).Draw(t, "operations") {
			o := host.PatchOp{Op: rapid.SampledFrom([]string{"add", "replace", "remove", "move"}).Draw(t, "op"), Path: pointer.Draw(t, "path"), From: pointer.Draw(t, "from")}
			o.Value = json.RawMessage(fmt.Sprint(100 + rapid.IntRange(0, 800).Draw(t, "value")*10 + i))
			if s.Patch([]host.PatchOp{o}) == nil {
				out = append(out, o)
			}
		}
		return out
	})
	applied := func(patches ...[]host.PatchOp) (string, bool) {
		s := newState(t, state)
		for _, p := range patches {
			if s.Patch(p) != nil {
				return "", false
			}
		}
		return unordered(t, s.JSON()), true
	}
	refused, kept := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		first, second := patch.Draw(rt, "first"), patch.Draw(rt, "second")
		after, failure := patchAtOnce(t, state, first, second)
		if failure != "" {
			refused++
			return
		}
		kept++
		want, ok := applied(second, first)
		if got := unordered(t, json.RawMessage(after)); !ok || got != want {
			rt.Fatalf("%v then %v is\n%s\nthe other way round it is %t\n%s", jsonOf(first), jsonOf(second), got, ok, want)
		}
	})
	if longtest.Enabled() && (refused == 0 || kept == 0) {
		t.Errorf("%d were refused and %d were not; the test should see both", refused, kept)
	}
}

// unordered returns JSON with the elements of its arrays sorted.
func unordered(t testing.TB, raw json.RawMessage) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	var sort func(v any) string
	sort = func(v any) string {
		switch v := v.(type) {
		case []any:
			out := make([]string, len(v))
			for i, e := range v {
				out[i] = sort(e)
			}
			slices.Sort(out)
			return "[" + strings.Join(out, ",") + "]"
		case map[string]any:
			for k, e := range v {
				v[k] = sort(e)
			}
		}
		return jsonOf(v)
	}
	return sort(v)
}

func mustState(raw string) *host.State {
	s, err := host.NewState(json.RawMessage(raw), 0)
	if err != nil {
		panic(err)
	}
	return s
}

func jsonOf(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}
