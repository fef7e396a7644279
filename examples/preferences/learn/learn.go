// Package learn finds preferences in what a user says. It is what the provider in
// Go and the one in WebAssembly have in common, so it imports nothing but strings.
package learn

import "strings"

// Preference is something that a user prefers, by name.
type Preference struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// MaxPreferences is how many are kept: the oldest goes.
const MaxPreferences = 20

// Preferences are a user's, the oldest first.
type Preferences []Preference

// Text describes the preferences to a model; "" without any.
func (p Preferences) Text() string {
	if len(p) == 0 {
		return ""
	}
	said := make([]string, len(p))
	for i, one := range p {
		said[i] = one.Name + ": " + one.Value
	}
	return "User preferences: " + strings.Join(said, ", ")
}

// Add returns the preferences with those that a text tells of, and whether that
// changes anything. A sentence tells of one if it is "my NAME is VALUE", "I prefer
// VALUE" or "call me VALUE"; a later one of the same name takes the place of the
// earlier.
func (p Preferences) Add(text string) (Preferences, bool) {
	changed := false
	for _, sentence := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(".!?\n", r) }) {
		if one, ok := parse(strings.TrimSpace(sentence)); ok {
			p, changed = p.with(one, changed)
		}
	}
	return p, changed
}

func (p Preferences) with(one Preference, changed bool) (Preferences, bool) {
	for i, known := range p {
		if known.Name != one.Name {
			continue
		}
		if known == one {
			return p, changed
		}
		p = append(append(Preferences{}, p[:i]...), p[i+1:]...)
		break
	}
	p = append(p[:len(p):len(p)], one)
	return p[max(0, len(p)-MaxPreferences):], true
}

// forms are beginnings of sentences that name the preference themselves.
var forms = []struct{ begin, name string }{{"call me ", "name"}, {"i prefer ", "style"}}

func parse(sentence string) (Preference, bool) {
	lower := strings.ToLower(sentence)
	for _, f := range forms {
		if strings.HasPrefix(lower, f.begin) && len(lower) == len(sentence) {
			return Preference{f.name, sentence[len(f.begin):]}, true
		}
	}
	if !strings.HasPrefix(lower, "my ") || len(lower) != len(sentence) { // another length: letters whose case changes it
		return Preference{}, false
	}
	name, value, ok := strings.Cut(sentence[len("my "):], " is ")
	return Preference{strings.ToLower(name), value}, ok && name != "" && value != ""
}
