package hookedit_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/hookedit"
)

// start is a round as a hook is given it.
type start struct {
	Round        int
	Instructions string
	Messages     []*chat.Message
}

// said returns instructions and a conversation as one line: role letter and text or call.
func said(instructions string, messages []*chat.Message) string {
	var words []string
	if instructions != "" {
		words = append(words, "s:"+instructions)
	}
	for _, m := range messages {
		word := string(m.Role[:1]) + ":" + m.Text()
		for _, c := range m.ToolCalls() {
			word += c.Name
		}
		words = append(words, word)
	}
	return strings.Join(words, " | ")
}

// What a hook changes holds for the rounds behind, once, whenever and how often the hook
// makes the change.
func TestEditsHoldAndAreMadeOnce(t *testing.T) {
	const round = ` | a:look | t:`
	redacted := func(m *chat.Message) *chat.Message {
		m = m.Clone()
		m.Parts = []chat.Part{&chat.Text{Text: "[" + m.Text() + "]"}}
		return m
	}
	for _, c := range []struct {
		name string
		hook func(at *start)
		want []string // that the model is sent in each round
	}{
		{"in each round the same", func(at *start) {
			at.Instructions += " Be brief."
			at.Messages = append(at.Messages, chat.UserText("and hurry"))
		}, []string{"s:Help. Be brief. | u:hi | u:and hurry", "s:Help. Be brief. | u:hi | u:and hurry" + round, "s:Help. Be brief. | u:hi | u:and hurry" + round + round}},
		{"in the first alone", func(at *start) {
			if at.Round == 1 {
				at.Instructions = "Now: " + at.Instructions
				at.Messages = slices.Insert(at.Messages, 0, chat.UserText("before"))
			}
		}, []string{"s:Now: Help. | u:before | u:hi", "s:Now: Help. | u:before | u:hi" + round, "s:Now: Help. | u:before | u:hi" + round + round}},
		{"in the second alone", func(at *start) {
			if at.Round == 2 {
				at.Instructions += " Two."
				at.Messages = append(at.Messages, chat.UserText("two"))
			}
		}, []string{"s:Help. | u:hi", "s:Help. Two. | u:hi" + round + " | u:two", "s:Help. Two. | u:hi" + round + " | u:two" + round}},
		{"another in each", func(at *start) {
			at.Instructions += strings.Repeat("!", at.Round)
			at.Messages = append(at.Messages, chat.UserText(strings.Repeat("?", at.Round)))
		}, []string{"s:Help.! | u:hi | u:?", "s:Help.!!! | u:hi | u:?" + round + " | u:??", "s:Help.!!!!!! | u:hi | u:?" + round + " | u:??" + round + " | u:???"}},
		{"rewritten, then added to", func(at *start) {
			if at.Instructions = "Serve."; at.Round == 2 {
				at.Instructions = "Help. Thanks."
			}
		}, []string{"s:Serve. | u:hi", "s:Serve. Thanks. | u:hi" + round, "s:Serve. | u:hi" + round + round}},
		{"redacted in each", func(at *start) {
			at.Messages[0] = redacted(at.Messages[0])
		}, []string{"s:Help. | u:[hi]", "s:Help. | u:[hi]" + round, "s:Help. | u:[hi]" + round + round}},
		{"tools are dropped in the second", func(at *start) {
			if at.Round == 2 {
				at.Messages = at.Messages[:1]
			}
		}, []string{"s:Help. | u:hi", "s:Help. | u:hi", "s:Help. | u:hi" + round}},
		{"two of a text", func(at *start) {
			at.Messages = append(at.Messages, chat.UserText("x"), chat.UserText("x"))
		}, []string{"s:Help. | u:hi | u:x | u:x", "s:Help. | u:hi | u:x | u:x" + round, "s:Help. | u:hi | u:x | u:x" + round + round}},
		{"the input is moved to the end", func(at *start) {
			at.Messages = append(at.Messages[1:], at.Messages[0])
		}, []string{"s:Help. | u:hi", "s:Help." + round + " | u:hi", "s:Help." + round + " | u:hi" + round}},
		{"all of it is new", func(at *start) {
			at.Instructions, at.Messages = "", []*chat.Message{chat.UserText("start")}
		}, []string{"u:start", "u:start", "u:start"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var edits hookedit.Edits
			messages := []*chat.Message{chat.UserText("hi")}
			for i, want := range c.want {
				at := &start{i + 1, "Help.", slices.Clone(messages)}
				c.hook(at)
				after, err := hookedit.Check(at.Messages, messages, "helper")
				if err != nil {
					t.Fatal(err)
				}
				edits.EditInstructions("Help.", at.Instructions)
				edits.EditMessages(messages, after)
				if got := said(edits.Instructions("Help."), edits.Messages(messages)); got != want {
					t.Errorf("round %d: the edits make\n%s, want\n%s", i+1, got, want)
				}
				messages = append(messages, chat.NewMessage(chat.Assistant, &chat.ToolCall{ID: "c", Name: "look"}),
					chat.NewMessage(chat.ToolRole, &chat.ToolResult{ID: "c", Name: "look"}))
			}
		})
	}
}

func TestForgetFirstKeepsTheMessagesBehindOthers(t *testing.T) {
	var edits hookedit.Edits
	before := []*chat.Message{chat.UserText("hi")}
	edits.EditMessages(before, []*chat.Message{chat.UserText("first"), before[0], chat.UserText("last")})
	if got, want := said("", edits.Messages(before)), "u:first | u:hi | u:last"; got != want {
		t.Fatalf("the edits make %s, want %s", got, want)
	}
	edits.ForgetFirst()
	if got, want := said("", edits.Messages(before)), "u:hi | u:last"; got != want {
		t.Errorf("without the first the edits make %s, want %s", got, want)
	}
}

func TestCheckNamesAddedMessagesAndRefusesDamage(t *testing.T) {
	hi := chat.UserText("hi")
	before := []*chat.Message{hi}
	out, err := hookedit.Check([]*chat.Message{hi, chat.AssistantText("ok")}, before, "helper")
	if err != nil {
		t.Fatal(err)
	}
	if out[0].Agent != "" || out[1].Agent != "helper" || out[1].ID == "" {
		t.Errorf("the messages are %+v and %+v, want the agent's name on the second", out[0], out[1])
	}
	for name, after := range map[string][]*chat.Message{
		"a message that is nil": {hi, nil},
		"a call left open":      {hi, chat.NewMessage(chat.Assistant, &chat.ToolCall{ID: "c", Name: "look"}), chat.UserText("and?")},
	} {
		if _, err := hookedit.Check(after, before, "helper"); fault.CodeOf(err) != fault.Internal {
			t.Errorf("%s: error %v, want code internal", name, err)
		}
	}
}
