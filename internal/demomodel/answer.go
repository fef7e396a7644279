package demomodel

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host/scriptedmodel"
	"github.com/agenthost/agenthost/internal/toolschema"
)

// maxCalls bounds how many tools one answer calls, and one turn.
const maxCalls = 16

// Bounds of what is read. Many patterns are tried on each text: a very long request must
// not keep them busy for minutes.
const (
	maxRequestText = 8 << 10  // of one message: its beginning and its end
	maxEarlierText = 32 << 10 // of the user's messages before, the latest ones
	maxSystemText  = 64 << 10
)

// Answer answers a request that no rule matches: with calls of the tools whose words the
// request has, with a sentence about the results of such calls, or with what it can do.
// It is for [scriptedmodel.Options.Otherwise], does not change the conversation and is
// safe for concurrent use.
func Answer(asked *scriptedmodel.Conversation) *scriptedmodel.Reply {
	c := newConversation(asked)
	switch {
	case c.ToolChoice == "none" || len(c.offers) == 0 && len(c.Results) == 0:
		return c.withoutTools()
	case c.tool(selectTool) != nil:
		return route(c)
	}
	p := &planner{conversation: c}
	calls := p.plan()
	calls = slices.DeleteFunc(calls, c.made)
	if len(calls) > 0 && len(c.Current) < maxCalls {
		return &scriptedmodel.Reply{Calls: c.allowed(calls)}
	}
	if len(c.Results) > 0 {
		return &scriptedmodel.Reply{Text: summarize(c.Results)}
	}
	return &scriptedmodel.Reply{Text: p.excuse()}
}

// planner works out which tools a request wants.
type planner struct {
	*conversation
	fallback *offer // the tool for a sentence that names none
	picked   *offer // of a sentence for which arguments were missing
	missing  []string
}

// plan returns the calls that the last request asks for, each once. It depends
// only on the messages before the answer, so that it returns the same calls
// again when the results have come.
func (p *planner) plan() []scriptedmodel.ReplyCall {
	if forced := p.forced(); forced != nil {
		return p.callsOf(forced, p.LastUser())
	}
	p.fallback = p.lastUsed()
	var calls []scriptedmodel.ReplyCall
	add := func(more []scriptedmodel.ReplyCall) {
		for _, m := range more {
			if !slices.ContainsFunc(calls, func(c scriptedmodel.ReplyCall) bool {
				return c.Name == m.Name && string(c.Arguments) == string(m.Arguments)
			}) {
				calls = append(calls, m)
			}
		}
	}
	sentences := asks(p.LastUser(), isVerbOf(p.offers))
	for _, s := range sentences[:min(len(sentences), maxCalls)] {
		add(p.sentence(s))
	}
	if len(calls) == 0 && len(sentences) > 0 {
		add(p.sentence(p.LastUser()))
	}
	if len(calls) == 0 && p.ToolChoice == "required" {
		return p.required()
	}
	return calls
}

// forced returns the tool that the request insists on.
func (p *planner) forced() *offer {
	if len(p.Results) > 0 {
		return nil
	}
	return p.tool(p.ToolChoice)
}

// required picks something when something must be called.
func (p *planner) required() []scriptedmodel.ReplyCall {
	if len(p.Results) > 0 {
		return nil
	}
	if list := rank(p.offers, requestWords(p.LastUser())); len(list) > 0 {
		return p.callsOf(list[0].offer, p.LastUser())
	}
	return p.callsOf(p.offers[0], p.LastUser())
}

// lastUsed returns the tool that the conversation called last, if it is still
// offered, or the one that the words before would have called.
func (p *planner) lastUsed() *offer {
	for _, call := range slices.Backward(p.Past) {
		if t := p.tool(call.Name); t != nil {
			return t
		}
	}
	for _, text := range slices.Backward(p.earlier()) {
		if list := rank(p.offers, requestWords(text)); len(list) > 0 && list[0].worth >= enoughWorth {
			return list[0].offer
		}
	}
	return nil
}

// sentence returns the calls that one sentence asks for.
func (p *planner) sentence(text string) []scriptedmodel.ReplyCall {
	for i, r := range rank(p.offers, requestWords(text)) {
		if r.worth < enoughWorth || i >= maxCandidates {
			break
		}
		if calls := p.callsOf(r.offer, text); len(calls) > 0 {
			p.fallback = r.offer
			return calls
		}
	}
	t := p.fallback
	if t == nil {
		t = p.onlyOneWithID()
	}
	if t == nil || len(idsIn(text)) == 0 && !refersBack(text) {
		return nil
	}
	return p.callsOf(t, text)
}

// maxCandidates is how many tools are tried for one sentence.
const maxCandidates = 3

// onlyOneWithID returns the only tool that wants to know which thing is meant:
// the one for a request that is nothing but a number.
func (p *planner) onlyOneWithID() *offer {
	var only *offer
	for _, t := range p.offers {
		if _, ok := t.idParameter(); ok {
			if only != nil {
				return nil
			}
			only = t
		}
	}
	return only
}

// callsOf returns calls of one tool: one for each id that is meant, or one.
func (p *planner) callsOf(t *offer, text string) []scriptedmodel.ReplyCall {
	parameter, ok := t.idParameter()
	if !ok {
		return p.callOf(newFiller(t, text), text)
	}
	var calls []scriptedmodel.ReplyCall
	for _, id := range p.meant(text, t.parameters.Requires(parameter.Name)) {
		if asType(parameter.Schema, id) == nil {
			continue
		}
		f := newFiller(t, text)
		f.know(parameter.Name, id)
		calls = append(calls, p.callOf(f, text)...)
	}
	if len(calls) == 0 {
		return p.callOf(newFiller(t, text), text)
	}
	return calls
}

func (p *planner) callOf(f *filler, text string) []scriptedmodel.ReplyCall {
	f.insist = p.ToolChoice == f.tool.name || p.ToolChoice == "required"
	arguments := f.arguments()
	if len(f.missing) > 0 {
		p.picked, p.missing = f.tool, f.missing
		return nil
	}
	return []scriptedmodel.ReplyCall{{Name: f.tool.name, Arguments: arguments}}
}

var (
	otherWords = expression(`(?i)\b(?:other|others|another|second|else|rest|remaining|next)\b`)
	allWords   = expression(`(?i)\b(?:both|them|those|these|all|they|each)\b`)
	backWords  = expression(`(?i)\b(?:it|its|that|this|same|again|one|he|she)\b|^\W*(?:and|also|what about|how about)\b`)
)

func refersBack(text string) bool {
	return otherWords().MatchString(text) || allWords().MatchString(text) || backWords().MatchString(text)
}

// meant returns the ids that a sentence is about: those it names, or those it
// refers back to. If there must be one, those that stand elsewhere in the same
// message do as well, or the last that were asked about.
func (p *planner) meant(text string, must bool) []string {
	if ids := idsIn(text); len(ids) > 0 {
		return ids
	}
	mentioned, asked := p.mentioned(), p.asked()
	last := asked[max(len(asked)-1, 0):]
	switch {
	case otherWords().MatchString(text) && len(mentioned) > 0:
		return others(mentioned, asked)
	case allWords().MatchString(text) && len(mentioned) > 0:
		return mentioned
	case !must && !backWords().MatchString(text):
		return nil
	}
	if ids := idsIn(p.LastUser()); len(ids) > 0 {
		return ids
	}
	if len(last) > 0 {
		return last[0]
	}
	if len(mentioned) == 1 {
		return mentioned
	}
	return nil
}

// mentioned returns the ids that the user has named before, each once, in
// order.
func (p *planner) mentioned() []string {
	var out []string
	for _, text := range p.earlier() {
		for _, id := range idsIn(text) {
			if !slices.Contains(out, id) {
				out = append(out, id)
			}
		}
	}
	return out
}

// asked returns the ids of earlier questions, an entry for each question: from
// the past calls, or if the history has none with ids, from the user's earlier
// sentences.
func (p *planner) asked() [][]string {
	var out [][]string
	known := p.mentioned()
	for _, call := range p.Past {
		if ids := idsOf(call.Arguments, known); len(ids) > 0 {
			out = append(out, ids)
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, text := range p.earlier() {
		for _, s := range asks(text, isVerbOf(p.offers)) {
			if ids := idsIn(s); len(ids) > 0 {
				out = append(out, ids)
			}
		}
	}
	return out
}

// idsOf returns the known ids among a call's arguments.
func idsOf(arguments string, known []string) []string {
	var out []string
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, e := range v {
				walk(e)
			}
		case []any:
			for _, e := range v {
				walk(e)
			}
		case string, json.Number:
			if id := matching(fmt.Sprint(v), known); id != "" && !slices.Contains(out, id) {
				out = append(out, id)
			}
		}
	}
	v, err := toolschema.Decode(json.RawMessage(arguments))
	if err == nil {
		walk(v)
	}
	slices.Sort(out)
	return out
}

// matching returns the known id that a value is: 1042 is that of "ORD-1042" for
// a tool that takes numbers.
func matching(value string, known []string) string {
	for _, id := range known {
		if id == value || digitsOf().FindString(id) == value {
			return id
		}
	}
	return ""
}

// others returns the ids that were never asked about, or all but the last ones.
func others(mentioned []string, asked [][]string) []string {
	without := func(rounds [][]string) []string {
		return slices.DeleteFunc(slices.Clone(mentioned), func(id string) bool {
			return slices.ContainsFunc(rounds, func(ids []string) bool { return slices.Contains(ids, id) })
		})
	}
	if fresh := without(asked); len(fresh) > 0 {
		return fresh
	}
	return without(asked[max(len(asked)-1, 0):])
}

// maxToolsNamed bounds the tools that an excuse lists.
const maxToolsNamed = 8

// excuse says why nothing was called.
func (p *planner) excuse() string {
	const what = "I am a scripted stand-in, not a language model. "
	if p.picked != nil {
		return fmt.Sprintf("%sYour words fit the tool %s, but they do not say its %s.", what, p.picked.name, strings.Join(p.missing, " and "))
	}
	var b strings.Builder
	b.WriteString(what + "I can only call a tool whose name or description shares words with your request, and none does. The tools here:")
	for i, t := range p.offers {
		if i == maxToolsNamed {
			fmt.Fprintf(&b, "\n- and %d more", len(p.offers)-i)
			break
		}
		fmt.Fprintf(&b, "\n- %s", t.name)
		if first := firstSentence(t.description); first != "" {
			b.WriteString(": " + first)
		}
	}
	return b.String()
}

func firstSentence(text string) string {
	if all := sentences(text); len(all) > 0 {
		return shorten(all[0])
	}
	return ""
}
