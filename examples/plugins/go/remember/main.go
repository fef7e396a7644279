// Command remember is a plugin: a provider that reminds agents of what the user has asked them
// to remember in the thread.
package main

import (
	"slices"
	"strings"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

const (
	sign = "Remember: "
	most = 20 // facts; the oldest is forgotten first
)

func init() {
	pdk.Describe(pdk.Manifest{Name: "remember", Version: "1.0.0", Description: "Remembers what it is asked to, in the thread."})
	pdk.Provider("remember", provide)
	pdk.Observer("remember", observe)
}

func main() {} // never runs: the host calls what init has registered

func provide(p *pdk.Provide) error {
	facts, err := load()
	if err != nil || len(facts) == 0 {
		return err
	}
	p.Instruct("The user has asked you to remember:\n- " + strings.Join(facts, "\n- "))
	return nil
}

func observe(o *pdk.Observe) error {
	if o.Err != nil {
		return nil
	}
	for _, m := range slices.Backward(o.Messages) {
		if m.Role != pdk.RoleUser {
			continue
		}
		fact, found := strings.CutPrefix(m.Text(), sign)
		if !found {
			return nil
		}
		facts, err := load()
		if err != nil {
			return err
		}
		facts = append(facts, fact)
		return store(facts[max(0, len(facts)-most):])
	}
	return nil
}

// load returns what the provider keeps in the thread.
func load() (facts []string, err error) {
	kept, _, err := pdk.Own()
	for fact := range kept.Elements() {
		text, _ := fact.Str()
		facts = append(facts, text)
	}
	return facts, err
}

func store(facts []string) error {
	var w pdk.Writer
	w.BeginArray()
	for _, fact := range facts {
		w.Str(fact)
	}
	_, err := pdk.PutOwn(w.EndArray().Value())
	return err
}
