// Command plugin is the provider of package preferences as a plugin.
package main

import (
	"github.com/agenthost/agenthost/examples/preferences/learn"
	"github.com/agenthost/agenthost/pdk/go/pdk"
)

func init() {
	pdk.Describe(pdk.Manifest{Name: "preferences", Version: "1.0.0", Description: "Remembers what a user prefers, in the thread."})
	pdk.Provider("preferences", provide)
	pdk.Observer("preferences", observe)
}

func main() {} // never runs: the host calls what init has registered

// provide adds the known preferences to the agent's instructions.
func provide(p *pdk.Provide) error {
	known, err := load()
	if text := known.Text(); err == nil && text != "" {
		p.Instruct(text)
	}
	return err
}

// observe learns from the newest message of the user's.
func observe(o *pdk.Observe) error {
	if o.Err != nil {
		return nil
	}
	known, err := load()
	if err != nil {
		return err
	}
	for i := len(o.Messages) - 1; i >= 0; i-- {
		if o.Messages[i].Role != pdk.RoleUser {
			continue
		}
		if more, changed := known.Add(o.Messages[i].Text()); changed {
			return store(more)
		}
		break
	}
	return nil
}

// load reads what the thread has of this provider.
func load() (known learn.Preferences, err error) {
	value, _, err := pdk.Own()
	if err != nil {
		return nil, err
	}
	for one := range value.Elements() {
		name, _ := one.Get("name").Str()
		v, _ := one.Get("value").Str()
		known = append(known, learn.Preference{Name: name, Value: v})
	}
	return known, nil
}

func store(known learn.Preferences) error {
	var w pdk.Writer
	w.BeginArray()
	for _, one := range known {
		w.BeginObject().Key("name").Str(one.Name).Key("value").Str(one.Value).EndObject()
	}
	_, err := pdk.PutOwn(w.EndArray().Value())
	return err
}
