package reduce_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/reduce"
)

// A conversation is written as S:text|U:text|A:text|R:text|C:id|T:id, where R is
// reasoning, C calls the tool f_id and T answers it with 1.
func parse(t interface{ Fatalf(string, ...any) }, text string) (messages []*host.Message) {
	for i, word := range strings.FieldsFunc(text, func(r rune) bool { return r == '|' || r == ' ' }) {
		role, rest, _ := strings.Cut(word, ":")
		m := &host.Message{ID: fmt.Sprintf("m%d", i)}
		switch role {
		case "S":
			m.Role, m.Parts = host.System, []host.Part{&host.Text{Text: rest}}
		case "U":
			m.Role, m.Parts = host.User, []host.Part{&host.Text{Text: rest}}
		case "A":
			m.Role, m.Parts = host.Assistant, []host.Part{&host.Text{Text: rest}}
		case "R":
			m.Role, m.Parts = host.Assistant, []host.Part{&host.Reasoning{Text: rest}}
		case "C":
			m.Role = host.Assistant
			for _, id := range strings.Split(rest, ",") {
				m.Parts = append(m.Parts, &host.ToolCall{ID: id, Name: "f_" + id, Arguments: []byte(`{}`)})
			}
		case "T":
			m.Role, m.Parts = host.ToolRole, []host.Part{&host.ToolResult{ID: rest, Name: "f_" + rest, Content: []byte(`1`)}}
		default:
			t.Fatalf("conversation %q: %q", text, word)
		}
		messages = append(messages, m)
	}
	return messages
}

func written(messages []*host.Message) string {
	var words []string
	for _, m := range messages {
		switch p := m.Parts[0].(type) {
		case *host.Text:
			role := strings.ToUpper(string(m.Role[:1]))
			words = append(words, role+":"+p.Text)
		case *host.Reasoning:
			words = append(words, "R:"+p.Text)
		case *host.ToolCall:
			var ids []string
			for _, c := range m.ToolCalls() {
				ids = append(ids, c.ID)
			}
			words = append(words, "C:"+strings.Join(ids, ","))
		case *host.ToolResult:
			words = append(words, "T:"+p.ID)
		}
	}
	return strings.Join(words, "|")
}

// tens counts every message as ten tokens.
type tens struct{}

func (tens) EncodingFor(string) (string, bool)                        { return "tens", true }
func (tens) CountTokens(context.Context, string, []byte) (int, error) { return 10, nil }
func view(messages []*host.Message) *host.View                        { return llm.NewView(messages, "m", tens{}) }
func must(r reduce.Reducer, err error) func(testing.TB) reduce.Reducer {
	return func(t testing.TB) reduce.Reducer {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
}

func reduced(t *testing.T, r reduce.Reducer, conversation string) string {
	t.Helper()
	in := parse(t, conversation)
	before := written(in)
	out, err := r.Reduce(t.Context(), view(in))
	if err != nil {
		t.Fatal(err)
	}
	if got := written(in); got != before {
		t.Errorf("the reducer changed its input to %s", got)
	}
	return written(out)
}

func TestCounting(t *testing.T) {
	for _, c := range []struct {
		target int
		in     string
		drop   string // with DropToolPairs, as Agent Framework has it
		keep   string // by default, where it differs
	}{
		{2, "S:s|U:1|A:1|U:2|A:2", "S:s|U:2|A:2", ""},
		{2, "S:1|U:a|S:2|A:b|U:c|A:d", "S:1|U:c|A:d", ""},
		{5, "C:a|T:a|C:b|T:b", "", "C:a|T:a|C:b|T:b"},
		{2, "U:1|S:a|A:1|S:b|U:2", "S:a|A:1|U:2", ""},
		{4, "U:w|C:a|T:a|A:x", "U:w|A:x", "U:w|C:a|T:a|A:x"},
		{3, "U:w|C:a|T:a|A:x", "U:w|A:x", "C:a|T:a|A:x"},
		{2, "U:w|C:a|T:a|A:x", "U:w|A:x", "A:x"}, // no call without its result
		{1, "S:s|U:1|A:2|U:3|A:4", "S:s|A:4", ""},
		{5, "U:1|A:2|U:3|A:4|U:5|A:6|U:7|A:8", "A:4|U:5|A:6|U:7|A:8", ""},
		{3, "U:1|A:2|U:3|A:4|U:5|A:6|U:7|A:8", "A:6|U:7|A:8", ""},
		{3, "", "", ""},
		{1, "U:1|C:a,b|T:a|T:b", "U:1", "C:a,b|T:a|T:b"}, // the newest stays whole
	} {
		if got := reduced(t, must(reduce.Counting(c.target, &reduce.CountingOptions{ToolPairs: reduce.DropToolPairs}))(t), c.in); got != c.drop {
			t.Errorf("%d of %s, tool pairs dropped = %s, want %s", c.target, c.in, got, c.drop)
		}
		if c.keep == "" {
			c.keep = c.drop
		}
		if got := reduced(t, must(reduce.Counting(c.target, nil))(t), c.in); got != c.keep {
			t.Errorf("%d of %s = %s, want %s", c.target, c.in, got, c.keep)
		}
	}
}

const base = "S:s|U:1|A:1|U:2|C:a|T:a|A:2|U:3"

func TestWindowsAndTools(t *testing.T) {
	truncation := func(most, goal int, opts *reduce.TruncationOptions) reduce.Reducer {
		return must(reduce.Truncation(most, goal, opts))(t)
	}
	sliding := func(n int) reduce.Reducer { return must(reduce.SlidingWindow(n))(t) }
	drop := func(n int) reduce.Reducer { return must(reduce.DropTools(n))(t) }
	collapse := func(n int) reduce.Reducer { return must(reduce.CollapseTools(n))(t) }
	budget := func(n int, steps ...reduce.Reducer) reduce.Reducer { return must(reduce.Budget(n, steps...))(t) }
	const two = "U:1|C:a|T:a|A:1|U:2|C:b|T:b|A:2"
	for _, c := range []struct {
		name     string
		reducer  reduce.Reducer
		in, want string
	}{
		{"truncation to 4 drops the tools whole", truncation(6, 4, nil), base, "S:s|A:2|U:3"},
		{"truncation under its bound", truncation(8, 4, nil), base, base},
		{"truncation to 1", truncation(3, 1, nil), base, "S:s|U:3"},
		{"truncation to 1 with system messages", truncation(3, 1, &reduce.TruncationOptions{DropSystem: true}), base, "U:3"},
		{"truncation by tokens", truncation(50, 30, &reduce.TruncationOptions{Tokens: true}), base, "S:s|A:2|U:3"},
		{"truncation of system messages", truncation(1, 1, nil), "S:1|S:2|S:3", "S:1|S:2|S:3"},
		{"truncation of one large group", truncation(1, 1, nil), "C:a,b|T:a|T:b", "C:a,b|T:a|T:b"},
		{"window of 1", sliding(1), base, "S:s|U:3"},
		{"window of 2", sliding(2), base, "S:s|A:2|U:3"},
		{"window of 3", sliding(3), base, "S:s|C:a|T:a|A:2|U:3"},
		{"window of 5", sliding(5), base, "S:s|A:1|U:2|C:a|T:a|A:2|U:3"},
		{"all tools dropped", drop(0), two, "U:1|A:1|U:2|A:2"},
		{"all tools but one dropped", drop(1), two, "U:1|A:1|U:2|C:b|T:b|A:2"},
		{"two tools kept", drop(2), two, two},
		{"all tools but one collapsed", collapse(1), two, "U:1|A:[Tool results: f_a: 1]|A:1|U:2|C:b|T:b|A:2"},
		{"several results", collapse(0), "U:1|C:a,b|T:a|T:b|A:1", "U:1|A:[Tool results: f_a: 1; f_b: 1]|A:1"},
		{"a call that waits for its result", collapse(0), "U:1|C:a", "U:1|C:a"},
		{"a result far from its call", drop(0), "U:1|C:a|U:2|T:a|A:1", "U:1|U:2|A:1"},
		{"reasoning about a call", drop(0), "U:1|R:r|C:a|R:q|T:a|A:1", "U:1|A:1"},
		{"reasoning about an answer", drop(0), "U:1|R:r|A:1", "U:1|R:r|A:1"},
		{"a budget of all", budget(80, collapse(0)), base, base},
		{"a budget that a step keeps", budget(70, collapse(0)), base, "S:s|U:1|A:1|U:2|A:[Tool results: f_a: 1]|A:2|U:3"},
		{"a budget that drops", budget(40, collapse(0)), base, "S:s|A:[Tool results: f_a: 1]|A:2|U:3"},
		{"a budget of two", budget(20, collapse(0)), base, "S:s|U:3"},
		{"a budget of one", budget(10, collapse(0)), base, "U:3"},
		{"a budget of less than one", budget(5, collapse(0)), base, "U:3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := reduced(t, c.reducer, c.in); got != c.want {
				t.Errorf("%s becomes\n%s, want\n%s", c.in, got, c.want)
			}
		})
	}
}

func TestCollapsedTextIsBounded(t *testing.T) {
	messages := parse(t, "U:1|C:a|T:a|A:1")
	for _, content := range []string{strings.Repeat("x", 5000), strings.Repeat("é", 5000), strings.Repeat("x", 100_000)} {
		messages[2].Parts[0].(*host.ToolResult).Content = []byte(`"` + content + `"`)
		out, err := must(reduce.CollapseTools(0))(t).Reduce(t.Context(), view(messages))
		if err != nil {
			t.Fatal(err)
		}
		text := out[1].Text()
		if n := len([]rune(text)); n > reduce.MaxCollapsedChars || !strings.HasSuffix(text, "... [truncated]]") {
			t.Errorf("a result of %d bytes becomes %d characters that end with %q", len(content), n, text[len(text)-20:])
		}
	}
}

func TestReducersRefuse(t *testing.T) {
	for name, err := range map[string]error{
		"target 0":            second(reduce.Counting(0, nil)),
		"tool pairs":          second(reduce.Counting(1, &reduce.CountingOptions{ToolPairs: "some"})),
		"no model":            second(reduce.Summarizing(nil, 1, nil)),
		"summary target 0":    second(reduce.Summarizing(&scribe{}, 0, nil)),
		"negative threshold":  second(reduce.Summarizing(&scribe{}, 1, &reduce.SummarizingOptions{Threshold: -1})),
		"goal 0":              second(reduce.Truncation(5, 0, nil)),
		"goal above the most": second(reduce.Truncation(5, 6, nil)),
		"window 0":            second(reduce.SlidingWindow(0)),
		"negative keep":       second(reduce.DropTools(-1)),
		"negative collapse":   second(reduce.CollapseTools(-1)),
		"budget 0":            second(reduce.Budget(0)),
	} {
		if host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("%s: %v, want invalid_argument", name, err)
		}
	}
}

func second(_ reduce.Reducer, err error) error { return err }

// scribe is a model that summarizes as SUM, SUM2, SUM3... and keeps what it was
// asked.
type scribe struct {
	asked []string
	fails error
}

func (*scribe) Name() string { return "scribe" }

func (s *scribe) Generate(_ context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if s.fails != nil {
			yield(llm.Chunk{}, s.fails)
			return
		}
		messages := slices.Clone(req.Messages)
		last := messages[len(messages)-1]
		if last.Role != host.System || last.Text() != "P" {
			s.asked = append(s.asked, "no prompt")
		}
		s.asked = append(s.asked, written(messages[:len(messages)-1]))
		text := "SUM"
		if len(s.asked) > 1 {
			text += fmt.Sprint(len(s.asked))
		}
		yield(llm.Chunk{Response: &llm.Response{Parts: []host.Part{&host.Text{Text: text}}}}, nil)
	}
}

func TestSummarizing(t *testing.T) {
	for _, c := range []struct {
		target, threshold int
		in, asked, want   string
	}{
		{5, 0, "U:0|A:1|U:2|A:3|U:4", "", "U:0|A:1|U:2|A:3|U:4"},
		{5, 0, "U:0|A:1|U:2|A:3|U:4|A:5", "U:0", "A:SUM|A:1|U:2|A:3|U:4|A:5"},
		{5, 2, "U:0|A:1|U:2|A:3|U:4|A:5|U:6", "", "U:0|A:1|U:2|A:3|U:4|A:5|U:6"},
		{5, 2, "U:0|A:1|U:2|A:3|U:4|A:5|U:6|A:7", "U:0|A:1", "A:SUM|U:2|A:3|U:4|A:5|U:6|A:7"},
		{3, 2, "U:0|A:1|U:2|A:3|U:4|A:5", "U:0|A:1", "A:SUM|U:2|A:3|U:4|A:5"},
		{3, 0, "U:0|A:1|U:2|A:3|U:4|A:5", "U:0|A:1|U:2", "A:SUM|A:3|U:4|A:5"},
		{2, 0, "S:s|U:0|A:1|U:2|A:3|U:4|A:5", "U:0|A:1|U:2|A:3", "S:s|A:SUM|U:4|A:5"},
		{1, 0, "U:1|C:a|T:a|A:1", "U:1", "A:SUM|C:a|T:a|A:1"},
		{2, 0, "U:1|C:a|T:a|A:1", "U:1", "A:SUM|C:a|T:a|A:1"},
		{1, 0, "C:a|T:a|C:b|T:b|A:1", "", "C:a|T:a|C:b|T:b|A:1"},
		{2, 0, "U:1|A:1|C:a|T:a|C:b|T:b|A:9", "U:1|A:1", "A:SUM|C:a|T:a|C:b|T:b|A:9"},
		{2, 0, "U:1|C:a|T:a|A:1|U:2|A:2", "U:1|A:1", "A:SUM|U:2|A:2"},
	} {
		model := &scribe{}
		r := must(reduce.Summarizing(model, c.target, &reduce.SummarizingOptions{Threshold: c.threshold, Prompt: "P", ToolPairs: reduce.DropToolPairs}))(t)
		if got := reduced(t, r, c.in); got != c.want || strings.Join(model.asked, " ") != c.asked {
			t.Errorf("%d/%d of %s = %s, the model was asked %q; want %s and %q", c.target, c.threshold, c.in, got, model.asked, c.want, c.asked)
		}
	}
}

func TestSummariesKnowWhatToolsFound(t *testing.T) {
	model := &scribe{}
	r := must(reduce.Summarizing(model, 2, &reduce.SummarizingOptions{Prompt: "P"}))(t)
	got := reduced(t, r, "U:1|C:a|T:a|A:1|U:2|A:2")
	if want := "U:1|A:[called f_a with {}]|A:[f_a answered: 1]|A:1"; got != "A:SUM|U:2|A:2" || model.asked[0] != want {
		t.Errorf("becomes %s, and the model is asked %s; want it asked %s", got, model.asked, want)
	}
}

// Whether the whole conversation is kept or what a reducer made of it, and
// whether it has been through JSON: what was summarized is not summarized again.
func TestNothingIsSummarizedTwice(t *testing.T) {
	whole := parse(t, "U:0|A:1|U:2|A:3|U:4|A:5|U:6|A:7")
	for name, next := range map[string]func([]*host.Message) []*host.Message{
		"the whole conversation": func([]*host.Message) []*host.Message { return whole },
		"what was made of it":    func(out []*host.Message) []*host.Message { return append(out, whole[6:]...) },
		"through JSON": func(out []*host.Message) []*host.Message {
			raw, err := json.Marshal(out)
			var back []*host.Message
			if err == nil {
				err = json.Unmarshal(raw, &back)
			}
			if err != nil {
				t.Fatal(err)
			}
			return append(back, whole[6:]...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			model := &scribe{}
			r := must(reduce.Summarizing(model, 2, &reduce.SummarizingOptions{Prompt: "P"}))(t)
			out, err := r.Reduce(t.Context(), view(whole[:6]))
			if err != nil {
				t.Fatal(err)
			}
			if out, err = r.Reduce(t.Context(), view(next(out))); err != nil {
				t.Fatal(err)
			}
			if want := []string{"U:0|A:1|U:2|A:3", "A:SUM|U:4|A:5"}; !slices.Equal(model.asked, want) || written(out) != "A:SUM2|U:6|A:7" {
				t.Errorf("the model was asked %q, want %q; the end is %s", model.asked, want, written(out))
			}
		})
	}
}

func TestSummariesOfOthersAreNotUsed(t *testing.T) {
	model := &scribe{}
	r := must(reduce.Summarizing(model, 2, &reduce.SummarizingOptions{Prompt: "P"}))(t)
	for _, tenant := range []string{"a", "b"} {
		v := view(parse(t, "U:0|A:1|U:2|A:3"))
		v.Scope = host.Scope{Tenant: tenant, Thread: "t"}
		if _, err := r.Reduce(t.Context(), v); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(model.asked, []string{"U:0|A:1", "U:0|A:1"}) {
		t.Errorf("the model was asked %q", model.asked)
	}
}

func TestAFailedSummaryChangesNothing(t *testing.T) {
	model := &scribe{fails: host.Errorf(host.Unavailable, "down")}
	r := must(reduce.Summarizing(model, 2, &reduce.SummarizingOptions{Prompt: "P"}))(t)
	messages := parse(t, "U:0|A:1|U:2|A:3")
	if _, err := r.Reduce(t.Context(), view(messages)); host.CodeOf(err) != host.Unavailable {
		t.Errorf("err = %v, want the model's", err)
	}
	model.fails = nil
	if got := reduced(t, r, "U:0|A:1|U:2|A:3"); got != "A:SUM|U:2|A:3" {
		t.Errorf("afterwards %s", got)
	}
}

func TestSummariesHaveABound(t *testing.T) {
	model := &scribe{}
	r := must(reduce.Summarizing(model, 1, &reduce.SummarizingOptions{Prompt: "P", InputBytes: 4}))(t)
	if got := reduced(t, r, "U:12|A:34|U:56|A:78"); got != "A:SUM|U:56|A:78" {
		t.Errorf("got %s, want what is beyond four bytes left alone", got)
	}
}

// The turn in progress is not history.
func TestTheTurnInProgressStays(t *testing.T) {
	const conversation = "U:1|A:1|U:2|A:2|U:3|C:a|T:a|C:b|T:b"
	for name, c := range map[string]struct {
		r    reduce.Reducer
		want string
	}{
		"counting":    {must(reduce.Counting(1, &reduce.CountingOptions{ToolPairs: reduce.DropToolPairs}))(t), "A:2|U:3|C:a|T:a|C:b|T:b"},
		"summarizing": {must(reduce.Summarizing(&scribe{}, 2, &reduce.SummarizingOptions{Prompt: "P"}))(t), "A:SUM|U:2|A:2|U:3|C:a|T:a|C:b|T:b"},
		"window":      {must(reduce.SlidingWindow(1))(t), "U:3|C:b|T:b"},
		"collapsed":   {must(reduce.CollapseTools(1))(t), "U:1|A:1|U:2|A:2|U:3|A:[Tool results: f_a: 1]|C:b|T:b"},
		"budget":      {must(reduce.Budget(1))(t), "U:3|C:b|T:b"},
	} {
		messages := parse(t, conversation)
		v := view(messages)
		v.Input = messages[4].ID
		out, done, err := llm.Process(t.Context(), reduce.Processor(name, c.r), v)
		if err != nil || written(out) != c.want {
			t.Errorf("%s = %s, %v; want %s", name, written(out), err, c.want)
		} else if want := fmt.Sprintf(`{"reducer":%q,"dropped":%d}`, name, len(messages)-len(out)); string(done.Report) != want {
			t.Errorf("%s reports %s, want %s", name, done.Report, want)
		}
	}
}

// Whatever the conversation, a reducer leaves one that is no worse formed, keeps
// the input, and makes up no message.
func TestReducersKeepHistoriesWhole(t *testing.T) {
	reducers := []func(n int) (reduce.Reducer, error){
		func(n int) (reduce.Reducer, error) { return reduce.Counting(n+1, nil) },
		func(n int) (reduce.Reducer, error) {
			return reduce.Counting(n+1, &reduce.CountingOptions{ToolPairs: reduce.DropToolPairs})
		},
		func(n int) (reduce.Reducer, error) {
			return reduce.Summarizing(&scribe{}, n+1, &reduce.SummarizingOptions{Prompt: "P", Threshold: n % 3})
		},
		func(n int) (reduce.Reducer, error) { return reduce.Truncation(n+2, n+1, nil) },
		func(n int) (reduce.Reducer, error) { return reduce.SlidingWindow(n + 1) },
		reduce.DropTools,
		reduce.CollapseTools,
		func(n int) (reduce.Reducer, error) {
			collapse, err := reduce.CollapseTools(1)
			if err != nil {
				return nil, err
			}
			return reduce.Budget(10*n+1, collapse)
		},
	}
	rapid.Check(t, func(r *rapid.T) {
		messages := parse(r, strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"S:s", "U:u", "A:a", "R:r", "C:x|T:x", "C:y,z|T:z|T:y", "C:v|A:a|T:v"}), 0, 12).Draw(r, "turns"), "|"))
		v := view(messages)
		if len(messages) > 0 && rapid.Bool().Draw(r, "in a run") {
			v.Input = messages[rapid.IntRange(0, len(messages)-1).Draw(r, "input")].ID
		}
		reducer, err := rapid.SampledFrom(reducers).Draw(r, "reducer")(rapid.IntRange(0, 6).Draw(r, "n"))
		if err != nil {
			r.Fatal(err)
		}
		if _, _, err := llm.Process(context.Background(), reduce.Processor("p", reducer), v); err != nil {
			r.Fatalf("%s: %v", written(messages), err)
		}
	})
}
