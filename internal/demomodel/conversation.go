package demomodel

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host/scriptedmodel"
)

// conversation is a request as far as it is read: texts are bounded, tools are ready for
// matching.
type conversation struct {
	scriptedmodel.Conversation
	offers []*offer
}

func newConversation(asked *scriptedmodel.Conversation) *conversation {
	c := &conversation{Conversation: *asked}
	c.System = clip(asked.System, maxSystemText)
	left := maxRequestText + maxEarlierText
	first := len(asked.Users)
	for first > 0 && left > 0 {
		first--
		left -= min(len(asked.Users[first]), maxRequestText)
	}
	c.Users = nil
	for _, text := range asked.Users[first:] {
		c.Users = append(c.Users, ends(text))
	}
	for i := range asked.Tools {
		c.offers = append(c.offers, newOffer(&asked.Tools[i]))
	}
	return c
}

// ends returns a text's beginning and end.
func ends(text string) string {
	const half = maxRequestText / 2
	if len(text) <= maxRequestText {
		return text
	}
	return strings.ToValidUTF8(text[:half], "") + "\n" + strings.ToValidUTF8(text[len(text)-half:], "")
}

// allowed limits calls to those that the request permits.
func (c *conversation) allowed(calls []scriptedmodel.ReplyCall) []scriptedmodel.ReplyCall {
	if c.Serial {
		return calls[:1]
	}
	return calls[:min(len(calls), maxCalls)]
}

// withoutTools is all that can be said when there is nothing to call.
func (c *conversation) withoutTools() *scriptedmodel.Reply {
	if len(c.Results) > 0 {
		return &scriptedmodel.Reply{Text: summarize(c.Results)}
	}
	return &scriptedmodel.Reply{Text: "I am a scripted stand-in, not a language model: all I can do is call tools, and I have been given none here."}
}

// earlier returns the user's messages before the last one.
func (c *conversation) earlier() []string {
	return c.Users[:max(len(c.Users)-1, 0)]
}

func (c *conversation) tool(name string) *offer {
	for _, t := range c.offers {
		if t.name == name {
			return t
		}
	}
	return nil
}

// made reports whether this turn has called a tool with these arguments before.
func (c *conversation) made(call scriptedmodel.ReplyCall) bool {
	return slices.ContainsFunc(c.Current, func(m scriptedmodel.Call) bool {
		return m.Name == call.Name && bytes.Equal(compact([]byte(m.Arguments)), compact(call.Arguments))
	})
}

func compact(raw []byte) []byte {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}

// encode returns v as JSON without HTML escapes.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return json.RawMessage("null")
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}
