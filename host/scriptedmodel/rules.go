package scriptedmodel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/agenthost/agenthost/internal/toolschema"
)

// The bounds of a script.
const (
	maxRulesBytes = 1 << 20
	maxRules      = 1_000
	maxDelay      = 10 * time.Minute
)

// Rule is a reply to the requests that match. Its JSON is
//
//	{"name"?, "match": {...}, "reply": {...}}
type Rule struct {
	Name  string `json:"name,omitempty"`
	Match Match  `json:"match"`
	Reply Reply  `json:"reply"`
}

// Match says when a rule applies: when everything that is set holds. An empty
// one always applies, except after a tool's result.
type Match struct {
	// User is a regular expression that the last user's message must match. Its
	// groups may be used in the reply as ${1} or ${name}.
	User string `json:"user,omitempty"`

	// System is a regular expression that the system messages must match,
	// joined by line ends.
	System string `json:"system,omitempty"`

	// Tool is the name of a tool that must be offered.
	Tool string `json:"tool,omitempty"`

	// After is the name of a tool whose result has just come, "*" for any tool.
	// Without it the rule applies to a user's message that has not been answered
	// with calls yet: or it would call its tools for ever.
	After string `json:"after,omitempty"`

	// Turn is which user's message of the conversation it is, from 1.
	Turn int `json:"turn,omitempty"`
}

// Reply is an answer: text, tool calls or both, or a failure. In Text, in the
// Name of a call and in every string of its Arguments
//
//	${0}, ${1}, ${name}   are the text and groups that Match.User matched
//	${result}             is the text of the tools' results, joined by line ends
//
// and everything else, a lone $ too, is itself. An argument that is nothing but
// a group becomes a number where the tool's schema asks for one.
type Reply struct {
	Text         string       `json:"text,omitempty"`
	Reasoning    string       `json:"reasoning,omitempty"`
	Calls        []ReplyCall  `json:"calls,omitempty"`
	FinishReason string       `json:"finish_reason,omitempty"` // default: tool_calls with calls, else stop
	Usage        *ReplyUsage  `json:"usage,omitempty"`         // default: four bytes a token
	Delay        Duration     `json:"delay,omitempty"`         // before the answer
	ChunkDelay   Duration     `json:"chunk_delay,omitempty"`   // before each chunk of a stream
	Error        *ReplyError  `json:"error,omitempty"`         // instead of an answer
	Malformed    Malformation `json:"malformed,omitempty"`     // instead of a proper answer
}

// ReplyCall is a tool call.
type ReplyCall struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // default {}
}

// ReplyUsage is the usage that the answer reports.
type ReplyUsage struct {
	InputTokens  int `json:"input_tokens"`
	OutputTokens int `json:"output_tokens"`
}

// ReplyError is an HTTP error.
type ReplyError struct {
	Status     int    `json:"status"`
	Code       string `json:"code,omitempty"`
	Message    string `json:"message,omitempty"`
	RetryAfter string `json:"retry_after,omitempty"` // the header
}

// Malformation is a way to answer wrongly, for testing clients.
type Malformation string

// The malformations.
const (
	MalformedHTML       Malformation = "html"        // a web page
	MalformedHalfJSON   Malformation = "half_json"   // a document that ends in its middle
	MalformedEmpty      Malformation = "empty"       // status 200 and nothing
	MalformedCut        Malformation = "cut"         // the connection breaks in the middle of the answer
	MalformedNoDone     Malformation = "no_done"     // a whole answer without [DONE]
	MalformedErrorEvent Malformation = "error_event" // an error in the middle of the stream
	MalformedNoStream   Malformation = "no_stream"   // a document, although a stream was asked for
	MalformedHang       Malformation = "hang"        // the first half, then silence until the client leaves
)

var malformations = []Malformation{MalformedHTML, MalformedHalfJSON, MalformedEmpty, MalformedCut,
	MalformedNoDone, MalformedErrorEvent, MalformedNoStream, MalformedHang}

// Duration is a time.Duration whose JSON is a string such as "50ms".
type Duration time.Duration

// MarshalJSON implements json.Marshaler.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf(`a duration is a string such as "50ms"`)
	}
	v, err := time.ParseDuration(s)
	*d = Duration(v)
	return err
}

// ReadRules reads {"rules": [...]} and checks it. Unknown members are errors.
// Code invalid_argument; the error names the rule and its mistake.
func ReadRules(raw []byte) ([]Rule, error) {
	if len(raw) > maxRulesBytes {
		return nil, invalid("read rules: %d bytes, more than %d", len(raw), maxRulesBytes)
	}
	var file struct {
		Rules *[]json.RawMessage `json:"rules"`
	}
	if err := strictJSON(raw, &file); err != nil {
		return nil, invalid("read rules: %w", err).WithHint(`rules look like {"rules": [{"match": {"user": "hello"}, "reply": {"text": "Hello."}}]}`)
	}
	if file.Rules == nil {
		return nil, invalid(`read rules: there is no "rules"`)
	}
	rules := make([]Rule, len(*file.Rules))
	for i, r := range *file.Rules {
		if err := strictJSON(r, &rules[i]); err != nil {
			return nil, invalid("%s: %w", ruleName(i, rules[i].Name), err)
		}
	}
	if _, err := compileRules(rules); err != nil {
		return nil, err
	}
	return rules, nil
}

func strictJSON(raw []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the end")
	}
	return nil
}

func ruleName(i int, name string) string {
	if name == "" {
		return fmt.Sprintf("rule %d", i+1)
	}
	return fmt.Sprintf("rule %d (%q)", i+1, name)
}

// compiledRule is a rule that has been checked.
type compiledRule struct {
	Rule
	user, system *regexp.Regexp
	arguments    []any // of the calls, decoded
}

func compileRules(rules []Rule) ([]compiledRule, error) {
	if len(rules) > maxRules {
		return nil, invalid("%d rules, more than %d", len(rules), maxRules)
	}
	out := make([]compiledRule, len(rules))
	for i, r := range rules {
		out[i].Rule = r
		if err := out[i].compile(); err != nil {
			return nil, invalid("%s: %w", ruleName(i, r.Name), err)
		}
	}
	return out, nil
}

func (r *compiledRule) compile() (err error) {
	if r.user, err = compilePattern("match.user", r.Match.User); err != nil {
		return err
	}
	if r.system, err = compilePattern("match.system", r.Match.System); err != nil {
		return err
	}
	if r.Match.Turn < 0 {
		return fmt.Errorf("match.turn is %d; turns count from 1", r.Match.Turn)
	}
	return r.compileReply()
}

func compilePattern(what, pattern string) (*regexp.Regexp, error) {
	if pattern == "" {
		return nil, nil
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return re, nil
}

func (r *compiledRule) compileReply() error {
	rep := &r.Reply
	if err := rep.check(); err != nil {
		return err
	}
	if err := r.checkTemplate("reply.text", rep.Text); err != nil {
		return err
	}
	r.arguments = make([]any, len(rep.Calls))
	for i, c := range rep.Calls {
		what := fmt.Sprintf("reply.calls[%d]", i)
		if c.Name == "" {
			return fmt.Errorf("%s has no name", what)
		}
		if err := r.checkTemplate(what+".name", c.Name); err != nil {
			return err
		}
		var err error
		if r.arguments[i], err = toolschema.Decode(c.Arguments); err != nil {
			return fmt.Errorf("%s.arguments: %w", what, err)
		}
		if err := r.checkStrings(what+".arguments", r.arguments[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reply) check() error {
	says := r.Text != "" || r.Reasoning != "" || len(r.Calls) > 0
	switch {
	case r.Error != nil && (says || r.Malformed != ""):
		return errors.New("reply has an error and something else; it can be one of them")
	case r.Error != nil && (r.Error.Status < http.StatusBadRequest || r.Error.Status > 599):
		return fmt.Errorf("reply.error.status is %d, not that of an error", r.Error.Status)
	case r.Error == nil && !says && r.Malformed == "":
		return errors.New("reply says nothing; give it text, calls, error or malformed")
	case r.Malformed != "" && !knownMalformation(r.Malformed):
		return fmt.Errorf("reply.malformed is %q; it can be one of %v", r.Malformed, malformations)
	case r.Usage != nil && (r.Usage.InputTokens < 0 || r.Usage.OutputTokens < 0):
		return errors.New("reply.usage is negative")
	}
	for _, d := range []Duration{r.Delay, r.ChunkDelay} {
		if d < 0 || time.Duration(d) > maxDelay {
			return fmt.Errorf("reply waits %s; it can wait up to %s", time.Duration(d), maxDelay)
		}
	}
	return nil
}

func knownMalformation(m Malformation) bool {
	for _, k := range malformations {
		if k == m {
			return true
		}
	}
	return false
}

func (r *compiledRule) checkStrings(what string, v any) error {
	switch v := v.(type) {
	case string:
		return r.checkTemplate(what, v)
	case []any:
		for _, e := range v {
			if err := r.checkStrings(what, e); err != nil {
				return err
			}
		}
	case map[string]any:
		for k, e := range v {
			if err := r.checkStrings(what+"."+k, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// placeholder matches the placeholders of a template.
var placeholder = regexp.MustCompile(`\$\{(\w+)\}`)

// checkTemplate returns an error for a group that Match.User does not have.
func (r *compiledRule) checkTemplate(what, template string) error {
	for _, m := range placeholder.FindAllStringSubmatch(template, -1) {
		if m[1] != "result" && r.group(m[1]) < 0 {
			return fmt.Errorf("%s uses ${%s}, which match.user has no group for", what, m[1])
		}
	}
	return nil
}

// group returns the number of a group, or -1.
func (r *compiledRule) group(name string) int {
	if r.user == nil {
		return -1
	}
	if n, err := strconv.Atoi(name); err == nil {
		if n > r.user.NumSubexp() {
			return -1
		}
		return n
	}
	return r.user.SubexpIndex(name)
}

// reply returns the rule's reply to a conversation, nil if it does not apply.
func (r *compiledRule) reply(c *Conversation) *Reply {
	groups, ok := r.matches(c)
	if !ok {
		return nil
	}
	rep := r.Reply
	expand := func(template string) string { return r.expand(template, groups, c) }
	rep.Text = expand(rep.Text)
	rep.Calls = make([]ReplyCall, len(r.Reply.Calls))
	for i, call := range r.Reply.Calls {
		name := expand(call.Name)
		arguments := expandValue(r.arguments[i], expand, c.parametersOf(name))
		rep.Calls[i] = ReplyCall{Name: name, Arguments: encode(arguments)}
	}
	return &rep
}

func (r *compiledRule) matches(c *Conversation) (groups []string, ok bool) {
	m := &r.Match
	switch {
	case m.Tool != "" && c.tool(m.Tool) == nil,
		m.Turn != 0 && m.Turn != len(c.Users),
		!c.after(m.After),
		r.system != nil && !r.system.MatchString(c.System):
		return nil, false
	case r.user == nil:
		return nil, true
	}
	groups = r.user.FindStringSubmatch(c.LastUser())
	return groups, groups != nil
}

func (r *compiledRule) expand(template string, groups []string, c *Conversation) string {
	if !strings.Contains(template, "${") {
		return template
	}
	return placeholder.ReplaceAllStringFunc(template, func(p string) string {
		name := p[2 : len(p)-1]
		if n := r.group(name); n >= 0 {
			return groups[n]
		}
		return c.resultText()
	})
}

// expandValue expands the strings of a value. A value whose schema is a number
// becomes one, if it can.
func expandValue(v any, expand func(string) string, s *toolschema.Schema) any {
	switch v := v.(type) {
	case string:
		text := expand(v)
		if n, ok := s.Number(text); ok && text != v {
			return n
		}
		return text
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = expandValue(e, expand, s.Element())
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = expandValue(e, expand, s.Property(k))
		}
		return out
	}
	return v
}
