package mcpclient

import (
	"net/url"
	"os/exec"
	"path"
	"regexp"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/defaults"
)

// The defaults of a [Server].
const (
	DefaultTimeout     = time.Minute
	DefaultSearchAbove = 40
)

// Server says how a server is reached and what agents have of it. It has either a Command
// or a URL.
type Server struct {
	Name string // the name in agents, errors and the lock: letters, digits and single "-" or "_"

	// Command is a program and its arguments; it speaks on its standard input and output.
	// It gets the variables of Env and, of the host's environment, PATH, HOME, LANG, TZ
	// and TMPDIR, nothing else. It runs as the user of the host unless Prepare says
	// otherwise.
	Command []string
	Dir     string // where it runs; default: the host's directory
	Env     []Setting
	// Prepare, unless nil, changes the command before it starts: its user, its
	// namespaces. It must leave the standard streams and the process group.
	Prepare func(*exec.Cmd) error

	// URL is the address of a server over streamable HTTP, or of the older transport of
	// server-sent events with SSE. Headers go with each request to its origin, and to no
	// other; redirects are not followed.
	URL     string
	SSE     bool
	Headers []Setting
	// PublicOnly refuses addresses that are not of the public internet: for addresses that
	// tenants choose.
	PublicOnly bool
	OAuth      *OAuth // how to authorize where the server asks for it; nil refuses

	// Protocol is the newest version of the protocol to speak, such as 2025-06-18; default:
	// the newest that both sides know.
	Protocol string

	// Allow and Deny are patterns of the server's names for its tools, as of [path.Match];
	// a tool is offered if it matches one of Allow, or Allow is empty, and none of Deny.
	Allow, Deny []string
	// Prefix begins the names of the tools in agents; nil is the server's name and two
	// underscores. Rename gives single tools, by the server's names, a whole new name.
	Prefix *string
	Rename map[string]string

	// SearchAbove is the number of tools above which agents find them by a search tool
	// instead of having all in each request (40); negative: never.
	SearchAbove int

	Sampling    bool // the server may ask the model of the run
	Elicitation bool // the server may ask questions of the person behind the run
	Resources   bool // agents get tools that list and read its resources
	Prompts     bool // agents get tools that list and read its prompts
	Hints       bool // its hints that a tool is read-only or idempotent are believed: see host.ToolOptions

	// Shared has all tenants use one session, with the secrets of all tenants. Only for a
	// server that keeps nothing of its callers.
	Shared bool
	// Required makes a run fail whose tenant has the server while it is down; otherwise the
	// run has the tools of the others.
	Required bool
	Tenants  []string // the only ones that have it; nil: all. For servers of all tenants alone.

	Timeout time.Duration // of one call (1 min)
}

// Setting is a header of requests or a variable of a process: a value, or a secret that the
// host fills in, behind a prefix such as "Bearer ".
type Setting struct {
	Name   string
	Value  string
	Prefix string
	Secret string
}

// ToolPrefix returns the beginning of the tools' names in agents.
func (s *Server) ToolPrefix() string {
	if s.Prefix != nil {
		return *s.Prefix
	}
	return s.Name + "__"
}

// toolName returns the name of a tool in agents.
func (s *Server) toolName(own string) string {
	if name := s.Rename[own]; name != "" {
		return name
	}
	return fitName(s.ToolPrefix() + own)
}

// offers reports whether the lists of the server let a tool through.
func (s *Server) offers(own string) bool {
	return (len(s.Allow) == 0 || matches(s.Allow, own)) && !matches(s.Deny, own)
}

func matches(patterns []string, name string) bool {
	for _, p := range patterns {
		if ok, _ := path.Match(p, name); ok { // patterns were checked
			return true
		}
	}
	return false
}

// asksBack reports whether the server may send requests of its own during a call.
func (s *Server) asksBack() bool { return s.Sampling || s.Elicitation }

// maxServerName bounds a server's name, so that a prefix leaves room for a tool's.
const maxServerName = 32

var serverName = regexp.MustCompile(`^[A-Za-z0-9]+([_-][A-Za-z0-9]+)*$`)

// check refuses a server that cannot work, and fills in its defaults.
func (s *Server) check() error {
	refuse := func(format string, args ...any) *fault.Error {
		return fault.Errorf(fault.InvalidArgument, "MCP server "+format, args...)
	}
	if len(s.Name) > maxServerName || !serverName.MatchString(s.Name) {
		return refuse("name %q", s.Name).WithHint("use up to %d letters and digits, with single - and _ between them", maxServerName)
	}
	if (len(s.Command) > 0) == (s.URL != "") {
		return refuse("%q has a command and a URL, or neither", s.Name).WithHint("give it one of them")
	}
	if s.URL != "" {
		u, err := url.Parse(s.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			return refuse("%q: its URL cannot be used", s.Name).WithHint("write http:// or https://, a host and a path, without a user")
		}
	}
	if s.OAuth != nil {
		if err := s.OAuth.check(s.Name); err != nil {
			return err
		}
	}
	if len(s.Command) > 0 && (s.SSE || s.OAuth != nil || len(s.Headers) > 0 || s.PublicOnly) {
		return refuse("%q is a process, and has settings of a URL", s.Name).WithHint("remove its headers, OAuth, SSE and PublicOnly")
	}
	if s.URL != "" && (s.Dir != "" || len(s.Env) > 0 || s.Prepare != nil) {
		return refuse("%q has a URL, and settings of a process", s.Name).WithHint("remove its directory and environment")
	}
	if s.Shared && s.asksBack() {
		return refuse("%q is shared by tenants and may ask models or persons", s.Name).
			WithHint("a request could then reach another tenant's run: give each tenant a session of its own")
	}
	for _, p := range append(append([]string{}, s.Allow...), s.Deny...) {
		if _, err := path.Match(p, ""); err != nil {
			return refuse("%q: the pattern %q of its tools", s.Name, p).WithHint("use names, with * for any letters")
		}
	}
	for own, name := range s.Rename {
		if fitName(name) != name {
			return refuse("%q: the new name %q of its tool %q", s.Name, name, own).WithHint("use 1 to %d letters, digits, _ and -", maxToolName)
		}
	}
	if p := s.ToolPrefix(); len(p) > maxToolName/2 || p != "" && fitName(p) != p {
		return refuse("%q: the prefix %q", s.Name, p).WithHint("use up to %d letters, digits, _ and -", maxToolName/2)
	}
	for _, list := range [][]Setting{s.Env, s.Headers} {
		for _, v := range list {
			if v.Name == "" || v.Secret != "" && v.Value != "" || v.Secret == "" && v.Prefix != "" {
				return refuse("%q: the header or variable %q", s.Name, v.Name).WithHint("give it a name and a value, or a secret and perhaps its prefix")
			}
		}
	}
	for _, t := range s.Tenants {
		if err := host.ValidateTenant(t); err != nil {
			return fault.Wrap(err, "MCP server %q", s.Name)
		}
	}
	defaults.Set(&s.Timeout, DefaultTimeout)
	if s.SearchAbove == 0 {
		s.SearchAbove = DefaultSearchAbove
	}
	return nil
}
