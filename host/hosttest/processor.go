package hosttest

import (
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
)

// ProcessorCase is one view of history and a processor's expected result.
type ProcessorCase struct {
	Name  string
	View  []*host.Message
	Model string            // the model the view is for; default "scripted"
	Count host.TokenCounter // for processors that count; may be nil

	// Want is compared by role and parts, not by the ids and times that the processor
	// makes up. A nil Want compares nothing.
	Want []*host.Message

	// Code is the code of the error that the processor must return; "" for success.
	Code host.Code

	// DropsInput allows the processor to drop the last message of the user, which would
	// fail in a run.
	DropsInput bool
}

// TestProcessor checks a processor against the rules of [host.Processor] on each case
// and on views of the kit's own, which are of at most seven short messages and
// counted by the first case's counter: calls and results stay together, the user's
// last message stays, the result is the same each time and at once, and the view
// is not changed. Each case is a subtest, each broken rule an error that names
// it.
func TestProcessor(t *testing.T, p host.Processor, cases []ProcessorCase) {
	t.Helper()
	all := slices.Clip(cases)
	for _, c := range kitViews(t) {
		if len(cases) > 0 {
			c.Count, c.Model = cases[0].Count, cases[0].Model
		}
		all = append(all, c)
	}
	for _, c := range all {
		t.Run(c.Name, func(t *testing.T) { c.test(t, p) })
	}
}

func (c *ProcessorCase) test(t *testing.T, p host.Processor) {
	model := c.Model
	if model == "" {
		model = "scripted"
	}
	view := func() *host.View { return llm.NewView(c.View, model, c.Count) }
	before := jsonLines(c.View)
	got, _, err := llm.Process(t.Context(), p, view())
	if diff := cmp.Diff(before, jsonLines(c.View)); diff != "" {
		t.Errorf("rule: the view is not changed (-before +after):\n%s", diff)
	}
	if host.CodeOf(err) != c.Code {
		t.Fatalf("rule: calls and results stay together, and edits fit: %v (code %q); want code %q", err, host.CodeOf(err), c.Code)
	}
	if err != nil {
		return
	}
	if c.Want != nil {
		if diff := cmp.Diff(bodies(c.Want), bodies(got)); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
	}
	if !c.DropsInput {
		c.checkInput(t, got)
	}
	c.checkSame(t, p, view, got)
}

func (c *ProcessorCase) checkInput(t *testing.T, got []*host.Message) {
	t.Helper()
	i := lastUser(c.View)
	if i < 0 {
		return
	}
	id := c.View[i].ID
	if !slices.ContainsFunc(got, func(m *host.Message) bool { return m.ID == id }) {
		t.Errorf("rule: the current input may be edited, not dropped: message %s is gone", id)
	}
}

func lastUser(messages []*host.Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == host.User {
			return i
		}
	}
	return -1
}

// checkSame runs the processor a few times concurrently.
func (c *ProcessorCase) checkSame(t *testing.T, p host.Processor, view func() *host.View, want []*host.Message) {
	t.Helper()
	const times = 4
	var wg sync.WaitGroup
	for range times {
		wg.Go(func() {
			again, _, err := llm.Process(t.Context(), p, view())
			if err != nil {
				t.Errorf("rule: the result is the same each time: %v", err)
				return
			}
			if diff := cmp.Diff(bodies(want), bodies(again)); diff != "" {
				t.Errorf("rule: the result is the same each time (-first +again):\n%s", diff)
			}
		})
	}
	wg.Wait()
}

// bodies returns messages as JSON without the ids and times, which a processor may make
// up.
func bodies(messages []*host.Message) []string {
	lines := []string{}
	for _, m := range messages {
		body := &host.Message{Role: m.Role, Agent: m.Agent, Parts: m.Parts, Extra: m.Extra}
		lines = append(lines, string(body.AppendJSON(nil)))
	}
	return lines
}

// kitViews returns views that processors often handle wrongly. They contain nothing
// large, because a processor may have its own reasons to fail on that.
func kitViews(t *testing.T) []ProcessorCase {
	t.Helper()
	call := func(id, calls string) *host.Message {
		return decode(t, `{"id":"`+id+`","role":"assistant","agent":"clerk","parts":[`+calls+`],"created_at":"2025-03-04T05:06:07Z"}`)
	}
	result := func(id, call, name string) *host.Message {
		return decode(t, `{"id":"`+id+`","role":"tool","parts":[{"type":"tool_result","id":"`+call+`","name":"`+name+`","content":"ok"}],"created_at":"2025-03-04T05:06:07Z"}`)
	}
	const two = `{"type":"tool_call","id":"1","name":"look","arguments":{}},{"type":"tool_call","id":"2","name":"debug_tool","arguments":{}}`
	return []ProcessorCase{
		{Name: "kit: no messages", View: []*host.Message{}},
		{Name: "kit: only the input", View: []*host.Message{userSays("u1", "hello")}},
		{Name: "kit: parallel calls with text", View: []*host.Message{
			userSays("u1", "hello"), call("a1", `{"type":"text","text":"let me see"},`+two),
			result("r1", "2", "debug_tool"), result("r2", "1", "look"), answer("a2", "done"), userSays("u2", "and now?")}},
		{Name: "kit: a call still open at the end", View: []*host.Message{
			userSays("u1", "hello"), call("a1", two), result("r1", "1", "look")}},
		{Name: "kit: an id used again", View: []*host.Message{
			userSays("u1", "hello"), call("a1", two), result("r1", "1", "look"), result("r2", "2", "debug_tool"),
			call("a2", two), result("r3", "2", "debug_tool"), result("r4", "1", "look"), userSays("u2", "and now?")}},
		{Name: "kit: a result without a call", View: []*host.Message{
			userSays("u1", "hello"), result("r1", "gone", "look"), answer("a1", "done"), userSays("u2", "and now?")}},
		{Name: "kit: parts nobody knows", View: []*host.Message{
			decode(t, hardUserMessage), decode(t, hardAnswer), decode(t, hardToolMessage), userSays("u2", "and now?")}},
	}
}
