// Command desk is a router: it decides which agent of the order desk answers.
package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

func init() {
	pdk.Describe(pdk.Manifest{
		Name: "desk", Version: "1.0.0", Description: "Decides who at the order desk answers.",
		Permissions: pdk.Permissions{Messages: true}, // to see who has answered before
	})
	pdk.Router("desk", route)
}

func main() {} // never runs: the host calls what init has registered

// route is asked before the first agent runs, and again after each one.
func route(r *pdk.Route) error {
	question := ""
	if r.Input != nil {
		question = strings.ToLower(r.Input.Text())
	}
	switch {
	case r.Last != nil:
		r.Reason(r.Last.Agent + " has answered") // no agent is next, so the run ends
	case mentions(question, "return", "refund", "exchange"):
		r.Next("returns")
		r.Reason("the question is about a return")
	case mentions(question, "order", "where", "when", "status", "deliver", "arrive", "parcel"):
		r.Next("orders")
		r.Reason("the question is about an order")
	default: // "And the other one?" is for the agent that answered before.
		agent, err := lastToAnswer(r.Outline())
		r.Next(agent)
		r.Reason("the question names neither, so " + agent + " goes on")
		return err
	}
	return nil
}

func mentions(question string, words ...string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(question, word) })
}

// lastToAnswer returns the agent of the conversation's last answer; without an
// answer, or without the permission to read the conversation, that is "orders".
func lastToAnswer(conversation *pdk.Outline) (agent string, err error) {
	if conversation == nil || !strings.ContainsRune(conversation.Roles, pdk.RoleLetterAssistant) {
		return "orders", nil
	}
	messages, err := pdk.MessagesGet(strings.LastIndexByte(conversation.Roles, pdk.RoleLetterAssistant))
	if err != nil {
		return "", err
	}
	return cmp.Or(messages[0].Agent, "orders"), nil
}
