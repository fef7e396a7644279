package abi

import (
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/agenthost/agenthost/host/plugin/internal/guesttext"
	"github.com/agenthost/agenthost/host/plugin/internal/refusal"
)

// ResourceInfo is a resource in a manifest: a text, or what a tool of the plugin reads.
type ResourceInfo struct {
	URI         string `json:"uri"` // absolute; or a template of RFC 6570
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	MediaType   string `json:"media_type,omitempty"`
	Text        string `json:"text,omitempty"`
	Tool        string `json:"tool,omitempty"`
}

// PromptInfo is a prompt in a manifest: a text, or what a tool of the plugin writes.
type PromptInfo struct {
	Name        string           `json:"name"`
	Title       string           `json:"title,omitempty"`
	Description string           `json:"description,omitempty"`
	Arguments   []PromptArgument `json:"arguments,omitempty"`
	Text        string           `json:"text,omitempty"` // {{.arguments.NAME}} stands for an argument
	Tool        string           `json:"tool,omitempty"`
}

// PromptArgument is an argument of a prompt.
type PromptArgument struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
}

var (
	argumentName  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })
	argumentPlace = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\{\{\s*\.arguments\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}`)
	})
	templatedPlace = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{[A-Za-z0-9_.%]+\}`) })
)

// Fill returns the text of a prompt with its arguments filled in; an absent one is empty.
func (p *PromptInfo) Fill(arguments map[string]string) string {
	return argumentPlace().ReplaceAllStringFunc(p.Text, func(place string) string {
		return arguments[argumentPlace().FindStringSubmatch(place)[1]]
	})
}

// IsTemplate reports whether the resource stands for many URIs.
func (r *ResourceInfo) IsTemplate() bool { return strings.ContainsRune(r.URI, '{') }

func (m *Manifest) resourceProblems() (list []error) {
	refuse := func(r *ResourceInfo, problem string) {
		list = append(list, refusal.Invalid("manifest: resource %q %s", guesttext.Clean(r.URI), problem))
	}
	if len(m.Resources) > MaxParts {
		list = append(list, refusal.Invalid("manifest has %d resources, more than %d", len(m.Resources), MaxParts))
	}
	seen := map[string]bool{}
	for i := range m.Resources {
		r := &m.Resources[i]
		u, err := url.Parse(templatedPlace().ReplaceAllString(r.URI, "x"))
		switch {
		case err != nil || u.Scheme == "" || strings.ContainsAny(u.String(), "{}"):
			refuse(r, "has no absolute URI")
		case seen[r.URI]:
			refuse(r, "is given twice")
		case r.Name == "":
			refuse(r, "has no name")
		}
		seen[r.URI] = true
		if problem := m.sourceProblem(r.Text, r.Tool); problem != "" {
			refuse(r, problem)
		}
	}
	return list
}

// sourceProblem says why a resource or prompt cannot be read; "" if it can.
func (m *Manifest) sourceProblem(text, tool string) string {
	switch {
	case (text == "") == (tool == ""):
		return "has a text and a tool, or neither"
	case tool != "" && m.Tool(tool) == nil:
		return "names a tool that the plugin does not have"
	}
	return ""
}

func (m *Manifest) promptProblems() (list []error) {
	refuse := func(p *PromptInfo, problem string) {
		list = append(list, refusal.Invalid("manifest: prompt %q %s", guesttext.Clean(p.Name), problem))
	}
	if len(m.Prompts) > MaxParts {
		list = append(list, refusal.Invalid("manifest has %d prompts, more than %d", len(m.Prompts), MaxParts))
	}
	seen := map[string]bool{}
	for i := range m.Prompts {
		p := &m.Prompts[i]
		switch {
		case !ValidToolName(p.Name):
			refuse(p, "has a name that is not of 1 to 64 letters, digits, _ and -")
		case seen[p.Name]:
			refuse(p, "is given twice")
		}
		seen[p.Name] = true
		known := map[string]bool{}
		for _, a := range p.Arguments {
			if !argumentName().MatchString(a.Name) || known[a.Name] {
				refuse(p, "has an argument whose name is given twice, or is not of letters, digits and _")
			}
			known[a.Name] = true
		}
		for _, place := range argumentPlace().FindAllStringSubmatch(p.Text, -1) {
			if !known[place[1]] {
				refuse(p, "inserts an argument that it does not have")
			}
		}
		if problem := m.sourceProblem(p.Text, p.Tool); problem != "" {
			refuse(p, problem)
		}
	}
	return list
}
