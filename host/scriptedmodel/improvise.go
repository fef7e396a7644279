package scriptedmodel

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// maxCalls bounds how many tools one answer calls, and one turn.
const maxCalls = 16

// Bounds of the heuristic's input. It tries many patterns on each text: a very
// long request must not keep it busy for minutes.
const (
	maxRequestText = 8 << 10  // of one message: its beginning and its end
	maxEarlierText = 32 << 10 // of the user's messages before, the latest ones
	maxSystemText  = 64 << 10
)

// improvise answers without a rule.
func improvise(c *conversation) *Reply {
	c = c.abridged()
	switch {
	case c.choice == "none" || len(c.tools) == 0 && len(c.results) == 0:
		return c.withoutTools()
	case c.tool(selectTool) != nil:
		return route(c)
	}
	p := &planner{conversation: c}
	calls := p.plan()
	calls = slices.DeleteFunc(calls, c.made)
	if len(calls) > 0 && len(c.current) < maxCalls {
		return &Reply{Calls: c.allowed(calls)}
	}
	if len(c.results) > 0 {
		return &Reply{Text: summarize(c.results)}
	}
	return &Reply{Text: p.excuse()}
}

// abridged returns the conversation as far as the heuristic reads it.
func (c *conversation) abridged() *conversation {
	out := *c
	out.system = clip(c.system, maxSystemText)
	left := maxRequestText + maxEarlierText
	first := len(c.users)
	for first > 0 && left > 0 {
		first--
		left -= min(len(c.users[first]), maxRequestText)
	}
	out.users = nil
	for _, text := range c.users[first:] {
		out.users = append(out.users, ends(text))
	}
	return &out
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
func (c *conversation) allowed(calls []ReplyCall) []ReplyCall {
	if c.ParallelToolCalls != nil && !*c.ParallelToolCalls {
		return calls[:1]
	}
	return calls[:min(len(calls), maxCalls)]
}

// withoutTools is all that can be said when there is nothing to call.
func (c *conversation) withoutTools() *Reply {
	if len(c.results) > 0 {
		return &Reply{Text: summarize(c.results)}
	}
	return &Reply{Text: "I am a scripted stand-in, not a language model: all I can do is call tools, and I have been given none here."}
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
func (p *planner) plan() []ReplyCall {
	if forced := p.forced(); forced != nil {
		return p.callsOf(forced, p.lastUser())
	}
	p.fallback = p.lastUsed()
	var calls []ReplyCall
	add := func(more []ReplyCall) {
		for _, m := range more {
			if !slices.ContainsFunc(calls, func(c ReplyCall) bool { return c.Name == m.Name && string(c.Arguments) == string(m.Arguments) }) {
				calls = append(calls, m)
			}
		}
	}
	sentences := asks(p.lastUser(), isVerbOf(p.tools))
	for _, s := range sentences[:min(len(sentences), maxCalls)] {
		add(p.sentence(s))
	}
	if len(calls) == 0 && len(sentences) > 0 {
		add(p.sentence(p.lastUser()))
	}
	if len(calls) == 0 && p.choice == "required" {
		return p.required()
	}
	return calls
}

// forced returns the tool that the request insists on.
func (p *planner) forced() *offer {
	if len(p.results) > 0 {
		return nil
	}
	return p.tool(p.choice)
}

// required picks something when something must be called.
func (p *planner) required() []ReplyCall {
	if len(p.results) > 0 {
		return nil
	}
	if list := rank(p.tools, requestWords(p.lastUser())); len(list) > 0 {
		return p.callsOf(list[0].offer, p.lastUser())
	}
	return p.callsOf(p.tools[0], p.lastUser())
}

// lastUsed returns the tool that the conversation called last, if it is still
// offered, or the one that the words before would have called.
func (p *planner) lastUsed() *offer {
	for _, call := range slices.Backward(p.past) {
		if t := p.tool(call.Function.Name); t != nil {
			return t
		}
	}
	for _, text := range slices.Backward(p.earlier()) {
		if list := rank(p.tools, requestWords(text)); len(list) > 0 && list[0].worth >= enoughWorth {
			return list[0].offer
		}
	}
	return nil
}

// sentence returns the calls that one sentence asks for.
func (p *planner) sentence(text string) []ReplyCall {
	for i, r := range rank(p.tools, requestWords(text)) {
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
	for _, t := range p.tools {
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
func (p *planner) callsOf(t *offer, text string) []ReplyCall {
	parameter, ok := t.idParameter()
	if !ok {
		return p.callOf(newFiller(t, text), text)
	}
	var calls []ReplyCall
	for _, id := range p.meant(text, t.parameters.requires(parameter.name)) {
		if asType(parameter.schema, id) == nil {
			continue
		}
		f := newFiller(t, text)
		f.know(parameter.name, id)
		calls = append(calls, p.callOf(f, text)...)
	}
	if len(calls) == 0 {
		return p.callOf(newFiller(t, text), text)
	}
	return calls
}

func (p *planner) callOf(f *filler, text string) []ReplyCall {
	f.insist = p.choice == f.tool.name || p.choice == "required"
	arguments := f.arguments()
	if len(f.missing) > 0 {
		p.picked, p.missing = f.tool, f.missing
		return nil
	}
	return []ReplyCall{{Name: f.tool.name, Arguments: arguments}}
}

var (
	otherWords = regexp.MustCompile(`(?i)\b(?:other|others|another|second|else|rest|remaining|next)\b`)
	allWords   = regexp.MustCompile(`(?i)\b(?:both|them|those|these|all|they|each)\b`)
	backWords  = regexp.MustCompile(`(?i)\b(?:it|its|that|this|same|again|one|he|she)\b|^\W*(?:and|also|what about|how about)\b`)
)

func refersBack(text string) bool {
	return otherWords.MatchString(text) || allWords.MatchString(text) || backWords.MatchString(text)
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
	case otherWords.MatchString(text) && len(mentioned) > 0:
		return others(mentioned, asked)
	case allWords.MatchString(text) && len(mentioned) > 0:
		return mentioned
	case !must && !backWords.MatchString(text):
		return nil
	}
	if ids := idsIn(p.lastUser()); len(ids) > 0 {
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
	for _, call := range p.past {
		if ids := idsOf(call.Function.Arguments, known); len(ids) > 0 {
			out = append(out, ids)
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, text := range p.earlier() {
		for _, s := range asks(text, isVerbOf(p.tools)) {
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
	v, err := decodeArguments(json.RawMessage(arguments))
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
		if id == value || digitsOf.FindString(id) == value {
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
	for i, t := range p.tools {
		if i == maxToolsNamed {
			fmt.Fprintf(&b, "\n- and %d more", len(p.tools)-i)
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
