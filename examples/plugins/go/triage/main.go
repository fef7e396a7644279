// Command triage is a plugin: a router that gives a question to the agent whose words are in
// it.
package main

import (
	"strings"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

func init() {
	pdk.Describe(pdk.Manifest{Name: "triage", Version: "1.0.0", Description: "Routes questions by their words."})
	pdk.Router("triage", route).Config = `{
		"type": "object", "required": ["rules", "otherwise"],
		"properties": {
			"rules": {"type": "array", "items": {
				"type": "object", "required": ["agent", "words"],
				"properties": {"agent": {"type": "string"}, "words": {"type": "array", "items": {"type": "string", "minLength": 1}}}}},
			"otherwise": {"type": "string"}}
	}`
}

func main() {} // never runs: the host calls what init has registered

func route(r *pdk.Route) error {
	if r.Last != nil {
		r.Stop() // the agent has answered
		return nil
	}
	question := ""
	if r.Input != nil {
		question = strings.ToLower(r.Input.Text())
	}
	for rule := range r.Config.Get("rules").Elements() {
		agent, _ := rule.Get("agent").Str() // the host has checked the configuration
		for word := range rule.Get("words").Elements() {
			if word, ok := word.Str(); ok && strings.Contains(question, strings.ToLower(word)) {
				r.Next(agent)
				r.Reason(`the question has the word "` + word + `"`)
				return nil
			}
		}
	}
	otherwise, _ := r.Config.Get("otherwise").Str()
	r.Next(otherwise)
	r.Reason("the question has no word of a rule")
	return nil
}
