package mcpserver

import (
	"context"
	"encoding/json"

	"github.com/agenthost/agenthost/host"
)

// Catalog says what tenants are offered. It is called by many goroutines at once.
type Catalog interface {
	// Revision returns a number that differs after Offers of the tenant would return
	// something else. It is called often, and must be quick.
	Revision(tenant string) uint64
	// Offers returns what a tenant is offered now. The server does not change it. An
	// error leaves sessions with what they had.
	Offers(ctx context.Context, tenant string) (*Offers, error)
}

// Offers is what a tenant is offered. Of two tools of one name the first is offered: see
// [Offers.Clashes].
type Offers struct {
	Targets   []Target // as tools, before Tools
	Tools     []Tool
	Prompts   []Prompt
	Resources []Resource // beside the artifacts of threads
}

// Target is a network or agent that clients call as a tool. Its arguments are a message and,
// with Options.Threads, the id of a thread; its result is the text of the answer.
type Target struct {
	host.Target
	Tool        string // its name for clients; default: that of the target, made fit
	Title       string // for people
	Description string // default: that of an agent
}

// Tool is a tool that clients call by itself, without an agent around it. Its approval rules
// hold. A tool that a client would execute, and one that is an agent, cannot be offered.
type Tool struct {
	*host.Tool
	Title string // for people

	// Result is the JSON Schema of its results; nil is any. Clients read it if it is that
	// of an object.
	Result json.RawMessage

	Destructive bool // it may change or remove what is there

	Additive bool // of one that is not read-only: it adds, and neither changes nor removes
	Closed   bool // it reaches nothing but the data of the host
}

// Prompt is a text with arguments that a person chooses in a client.
type Prompt struct {
	Name        string
	Title       string
	Description string
	Arguments   []Argument

	// Tool, unless nil, writes the prompt in the place of Messages: it is called with the
	// arguments, in a run of the caller. Its content is a text of the user, or a list of
	// {"role":..., "text":...} with the roles user and assistant. Only callers that may run
	// tools are offered it.
	Tool *host.Tool
	// Messages returns the messages with the arguments filled in. Those that Arguments does
	// not name are left out, and required ones are there. Roles are user and assistant.
	Messages func(ctx context.Context, caller Caller, arguments map[string]string) ([]*host.Message, error)
}

// Argument is an argument of a prompt.
type Argument struct {
	Name        string
	Title       string
	Description string
	Required    bool
	Values      []string // that clients suggest; others are allowed
}

// Resource is a text or file that clients read.
type Resource struct {
	URI         string // absolute; or a template of RFC 6570, such as shop://orders/{id}
	Name        string
	Title       string
	Description string
	MediaType   string

	// Tool, unless nil, reads the resource in the place of Read: it is called with {"uri":...},
	// in a run of the caller. Its content is a text, or any JSON; its media are files of the
	// resource. Only callers that may run tools are offered it.
	Tool *host.Tool
	// Read returns the content at a URI: parts of the types text and media, whose data is in
	// them. Code not_found if the URI has no content.
	Read func(ctx context.Context, caller Caller, uri string) ([]host.Part, error)
}

// Clashes returns the names that more than one target or tool has.
func (o *Offers) Clashes() []string {
	seen := map[string]int{}
	var twice []string
	count := func(name string) {
		if seen[name]++; seen[name] == 2 {
			twice = append(twice, name)
		}
	}
	for i := range o.Targets {
		count(o.Targets[i].ToolName())
	}
	for i := range o.Tools {
		count(o.Tools[i].Name)
	}
	return twice
}

// ToolName returns the name that clients call a target by.
func (t *Target) ToolName() string {
	if t.Tool != "" {
		return t.Tool
	}
	return FitName(t.Target.Name())
}

// maxToolName is the length of the longest name of a tool that every client and model takes.
const maxToolName = 64

// FitName returns a name with an underscore in the place of each character that names of
// tools do not have.
func FitName(name string) string {
	fit := []byte(name[:min(len(name), maxToolName)])
	for i, c := range fit {
		if !(c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z') {
			fit[i] = '_'
		}
	}
	return string(fit)
}

// description returns the description of a target for models.
func (t *Target) description() string {
	if t.Description != "" {
		return t.Description
	}
	if a, ok := t.Target.(interface{ Description() string }); ok {
		return a.Description()
	}
	return ""
}
