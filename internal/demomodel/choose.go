package demomodel

import (
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host/scriptedmodel"
	"github.com/agenthost/agenthost/internal/toolschema"
)

// offer is a tool that the request offers, ready for matching.
type offer struct {
	name        string
	description string
	parameters  *toolschema.Schema

	nameStems   []string
	aboutStems  []string // of the description
	memberStems []string // of the parameters' names and enum values
	detailStems []string // of the parameters' descriptions
}

func newOffer(t *scriptedmodel.Tool) *offer {
	o := &offer{name: t.Name, description: t.Description, parameters: toolschema.Read(t.Parameters)}
	o.nameStems, o.aboutStems = stems(o.name), stems(o.description)
	for _, p := range o.parameters.Properties {
		o.memberStems = append(o.memberStems, stems(p.Name+" "+enumText(p.Schema))...)
		o.detailStems = append(o.detailStems, stems(p.Schema.Description)...)
	}
	return o
}

func enumText(s *toolschema.Schema) string {
	var b strings.Builder
	for _, v := range s.Enum {
		b.Write(v)
		b.WriteByte(' ')
	}
	return b.String()
}

// The worth of a shared word, by its place in the tool's declaration.
const (
	worthOfName   = 3.0
	worthOfAbout  = 1.5
	worthOfMember = 1.0
	worthOfDetail = 0.5
	enoughWorth   = 1.0 // for calling a tool that the request does not name
)

// worthOf is the worth of one word of a request for a tool.
func (o *offer) worthOf(word string) float64 {
	has := func(stems []string) bool {
		return slices.ContainsFunc(stems, func(s string) bool { return alike(s, word) })
	}
	worth := 0.0
	if has(o.nameStems) {
		worth += worthOfName
	}
	if has(o.aboutStems) {
		worth += worthOfAbout
	}
	if has(o.memberStems) {
		worth += worthOfMember
	}
	if has(o.detailStems) {
		worth += worthOfDetail
	}
	return worth
}

// ranked is a tool and the worth of a request's words for it.
type ranked struct {
	*offer
	worth float64
	words []string // that said it
}

// rank returns the tools that share words with a text, best first. A word that
// many tools share says little for each.
func rank(tools []*offer, words []string) []ranked {
	out := make([]ranked, len(tools))
	for i, t := range tools {
		out[i].offer = t
	}
	for _, w := range words {
		worths := make([]float64, len(tools))
		sharing := 0.0
		for i, t := range tools {
			if worths[i] = t.worthOf(w); worths[i] > 0 {
				sharing++
			}
		}
		for i, worth := range worths {
			if worth > 0 {
				out[i].worth += worth / sharing
				out[i].words = append(out[i].words, w)
			}
		}
	}
	out = slices.DeleteFunc(out, func(r ranked) bool { return r.worth == 0 })
	slices.SortStableFunc(out, func(a, b ranked) int {
		switch {
		case a.worth > b.worth:
			return -1
		case a.worth < b.worth:
			return 1
		}
		return 0
	})
	return out
}

// requestWords are a request's stems, and words for its entities, so that "17*23"
// finds a calculator.
func requestWords(text string) []string {
	words := stems(text)
	if expressionIn(text) != "" {
		words = append(words, stems("calculate calculator calc arithmetic expression math evaluate")...)
	}
	for _, e := range entities(text) {
		switch e.kind {
		case email:
			words = append(words, "email", "mail")
		case address:
			words = append(words, "url", "link", "fetch")
		}
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// isVerbOf returns whether a stem is a word of a tool's name: "Cancel order 7"
// asks for something if there is cancel_order.
func isVerbOf(tools []*offer) func(string) bool {
	return func(s string) bool {
		return slices.ContainsFunc(tools, func(t *offer) bool { return slices.Contains(t.nameStems, s) })
	}
}

// Words of a parameter's name that name the kind of its value.
var (
	idNames     = set("id ids no nr code ref reference key sku uuid guid ticket order orders invoice account customer tracking case isbn serial")
	amountNames = set("count quantity qty amount limit max min size page pages price total days hours minutes seconds weeks months years age percent rate offset temperature distance")
	textNames   = set("text query q message question input prompt content body note comment topic subject search term terms phrase words string sentence description summary reason title value")
	mathNames   = set("expression expr formula calculation equation math arithmetic")
)

// named reports whether a word of a parameter's name is one of names.
func named(p toolschema.Property, names map[string]bool) bool {
	return slices.ContainsFunc(splitWords(p.Name), func(w string) bool { return names[w] })
}

// holdsID reports whether a parameter wants to know which thing is meant.
func holdsID(p toolschema.Property) bool {
	switch p.Schema.Kind() {
	case "integer", "number", "string":
	default:
		return false
	}
	words := splitWords(p.Name)
	switch {
	case len(p.Schema.Enum) > 0 || p.Schema.Format != "" && p.Schema.Format != "uuid" || named(p, amountNames):
		return false
	case named(p, idNames) || p.Schema.Format == "uuid":
		return true
	}
	return len(words) > 1 && words[len(words)-1] == "number"
}

// idParameter returns the parameter that says which thing is meant: a required
// one rather than another. Of several, none is the one.
func (o *offer) idParameter() (toolschema.Property, bool) {
	var required, optional []toolschema.Property
	for _, p := range o.parameters.Properties {
		switch {
		case !holdsID(p):
		case o.parameters.Requires(p.Name) && !p.Schema.Is("null"):
			required = append(required, p)
		default:
			optional = append(optional, p)
		}
	}
	if len(required) == 0 && len(optional) == 1 {
		return optional[0], true
	}
	if len(required) == 1 {
		return required[0], true
	}
	return toolschema.Property{}, false
}
