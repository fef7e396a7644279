package llm

import (
	"encoding/json"
	"slices"

	"github.com/agenthost/agenthost/host/chat"
)

// FoundTool is a tool that a model is not offered until a result of the tool By has named it.
type FoundTool struct {
	ToolSpec
	By string
}

// Findings is the form of a result that names tools.
type Findings struct {
	Tools []Finding `json:"tools"`
}

// Finding is a tool that a result names.
type Finding struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// maxFindings bounds the result of a search that is looked at.
const maxFindings = 64 << 10

// WithFound returns specs and those of hidden that results in the messages name, in the
// order of hidden. A result that is no [Findings], or a failure, names none.
func WithFound(specs []ToolSpec, hidden []FoundTool, messages ...[]*chat.Message) []ToolSpec {
	if len(hidden) == 0 {
		return specs
	}
	by := map[string]bool{}
	for _, t := range hidden {
		by[t.By] = true
	}
	named := map[[2]string]bool{}
	for _, list := range messages {
		for _, m := range list {
			for _, r := range m.ToolResults() {
				if !by[r.Name] || r.IsError || len(r.Content) > maxFindings {
					continue
				}
				var f Findings
				_ = json.Unmarshal(r.Content, &f) // of another form it names none
				for _, t := range f.Tools {
					named[[2]string{r.Name, t.Name}] = true
				}
			}
		}
	}
	specs = slices.Clip(specs)
	for _, t := range hidden {
		if named[[2]string{t.By, t.Name}] {
			specs = append(specs, t.ToolSpec)
		}
	}
	return specs
}
