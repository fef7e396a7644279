package hosttest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
)

// TranscriptOptions provide Go values that transcripts may name beside their own
// definitions.
type TranscriptOptions struct {
	Tools      map[string]*host.Tool
	Processors map[string]host.Processor
	Providers  map[string]host.Provider
	Routers    map[string]host.Router
	Tokens     host.TokenCounter

	// Update writes the files instead of comparing them: set it from a flag of the test,
	// and read the diff before you commit it.
	Update bool
}

// RunTranscripts replays every file that pattern matches, each as a subtest in a
// synctest bubble, where time advances only when every goroutine waits. A transcript is
// a txtar archive:
//
//	What must hold, and why. A paragraph or two.
//
//	-- network.json --
//	{"agents": [{"name": "clerk", "tools": ["add"]}], "tools": [{"name": "add", "result": 3}]}
//	-- model --
//	call: add {"a":1,"b":2}
//
//	say: It is 3.
//	-- turn 1: input --
//	How much is 1 + 2?
//	-- turn 1: events --
//	...
//
// network.json is described by [TranscriptNetwork]. model holds the replies of
// all models in the order of their questions, with an empty line between: lines
// of "say:", "think:", "call:" (or "call#id:"), "finish:" and "error: code:
// message". Each "turn N: input" is one run, in the thread of the one before it
// if there is a history; an empty one has no input. "turn N: answers" resumes the
// interrupted run before it: a JSON object from tool call ids to answers.
//
// The results are compared with the sections "events", "requests" (sent to the
// models) and "history" (calls of the adapter) of each turn.
// With the option Update they are written instead. Ids are numbered in the order
// in which they appear, times and durations are left out, and tools run one
// after another, so that the files stay the same from run to run.
func RunTranscripts(t *testing.T, pattern string, opts *TranscriptOptions) {
	t.Helper()
	if opts == nil {
		opts = &TranscriptOptions{}
	}
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcript matches %s (%v)", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got *txtar.Archive
			synctest.Test(t, func(t *testing.T) { got = replay(t, archive, opts) })
			if t.Failed() {
				return
			}
			if opts.Update {
				if err := os.WriteFile(file, txtar.Format(got), 0o666); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(txtar.Format(archive)), string(txtar.Format(got))); diff != "" {
				t.Errorf("%s (-want +got):\n%s\nIf that is right, update the file and read the diff.", file, diff)
			}
		})
	}
}

// replay runs a transcript and returns the archive with the actual results.
func replay(t *testing.T, archive *txtar.Archive, opts *TranscriptOptions) *txtar.Archive {
	t.Helper()
	if len(bytes.TrimSpace(archive.Comment)) == 0 {
		t.Fatal("the transcript does not say what it is for; begin it with a paragraph of why")
	}
	s, err := newStage(archive, opts)
	out := &txtar.Archive{Comment: archive.Comment}
	for _, f := range archive.Files {
		turn, section, ok := strings.Cut(f.Name, ": ")
		begins := section == "input" || section == "answers"
		if !ok || begins {
			out.Files = append(out.Files, f)
		}
		if !begins {
			continue
		}
		add := func(section, text string) {
			if text != "" {
				out.Files = append(out.Files, txtar.File{Name: turn + ": " + section, Data: []byte(text)})
			}
		}
		if err != nil { // of the configuration
			add("events", s.errorLine(err))
			continue
		}
		req, badAnswers := s.nextRequest(section, f.Data)
		if badAnswers != nil {
			t.Fatalf("section %s: %v", f.Name, badAnswers)
		}
		events, requests, calls := s.turn(t.Context(), req)
		add("events", events)
		add("requests", requests)
		add("history", calls)
	}
	if err == nil && s.model.Left() > 0 {
		t.Errorf("%d of the model's replies were never asked for", s.model.Left())
	}
	return out
}

// stage is a transcript's network and the values kept between its turns.
type stage struct {
	host    *host.Host
	target  host.Target
	model   *Model
	history *History
	request host.Request
	names   namer
	last    *host.RunResult

	seenRequests, seenCalls int
}

// nextRequest returns the request of a turn.
func (s *stage) nextRequest(section string, data []byte) (*host.Request, error) {
	if section == "answers" {
		return s.answers(data)
	}
	req := s.request
	if text := strings.TrimSpace(string(data)); text != "" {
		req.Input = &host.Message{Role: host.User, Parts: []host.Part{&host.Text{Text: text}}}
	}
	return &req, nil
}

// answers returns the request that answers the last run's questions.
func (s *stage) answers(data []byte) (*host.Request, error) {
	if s.last == nil {
		return nil, fmt.Errorf("there is no run to answer")
	}
	var byCall map[string]host.Answer
	if err := decodeStrict(data, &byCall); err != nil {
		return nil, err
	}
	req := &host.Request{Tenant: s.request.Tenant, Resume: s.last.Run, Router: s.request.Router}
	for _, q := range s.last.Questions {
		if a, ok := byCall[q.ToolCall]; ok {
			a.Question = q.ID
			req.Answers = append(req.Answers, a)
		}
	}
	return req, nil
}

// turn runs one turn and returns its events, requests and calls as text.
func (s *stage) turn(ctx context.Context, req *host.Request) (events, requests, calls string) {
	var b strings.Builder
	for ev, err := range s.host.Stream(ctx, s.target, req) {
		if err != nil {
			b.WriteString(s.errorLine(err))
			break
		}
		if started, ok := ev.Data.(*runevent.RunStarted); ok {
			s.request.Thread = started.Thread
		}
		if done, ok := ev.Data.(*runevent.RunFinished); ok {
			s.last = done.Result
		}
		s.writeEvent(&b, ev)
	}
	return b.String(), s.newRequests(), s.newCalls()
}

func (s *stage) errorLine(err error) string {
	return fmt.Sprintf("error: %s: %s\n", host.CodeOf(err), s.names.replace(err.Error()))
}

// writeEvent writes an event as one line: number, who, type, data.
func (s *stage) writeEvent(b *strings.Builder, ev host.Event) {
	who := ""
	if ev.Agent != "" {
		who = " [" + ev.Agent + "]"
	}
	fmt.Fprintf(b, "%d%s %s %s\n", ev.Seq, who, ev.Data.Type(), s.names.replace(eventData(ev.Data)))
}

// volatile are the members of events that differ from run to run.
var volatile = []string{"created_at", "duration_us"}

// unnamed returns an event without the fields that name its run.
func unnamed(data host.EventData) host.EventData {
	switch d := data.(type) {
	case *runevent.AgentStarted:
		c := *d
		c.Result = ""
		return &c
	case *runevent.ToolStarted:
		c := *d
		c.Key = ""
		return &c
	case *runevent.ToolFinished:
		c := *d
		c.Key = ""
		return &c
	case *runevent.Interrupted:
		c := *d
		c.Key = ""
		return &c
	}
	return data
}

func eventData(data host.EventData) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(unnamed(data)); err != nil {
		return err.Error()
	}
	d := json.NewDecoder(&b)
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return err.Error()
	}
	b.Reset()
	if err := enc.Encode(without(v, volatile)); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(b.String())
}

func without(v any, names []string) any {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range names {
			delete(v, name)
		}
		for k, e := range v {
			v[k] = without(e, names)
		}
	case []any:
		for i, e := range v {
			v[i] = without(e, names)
		}
	}
	return v
}

// newRequests returns the requests to the models since its last call.
func (s *stage) newRequests() string {
	var b strings.Builder
	all := s.model.Requests()
	for _, req := range all[s.seenRequests:] {
		s.seenRequests++
		fmt.Fprintf(&b, "request %d", s.seenRequests)
		if req.Scope.Agent != "" {
			fmt.Fprintf(&b, " for %s", req.Scope.Agent)
		}
		if len(req.Tools) > 0 {
			fmt.Fprintf(&b, " tools %s", strings.Join(toolNames(req.Tools), ","))
		}
		if req.ToolChoice != "" {
			fmt.Fprintf(&b, " choice %s", req.ToolChoice)
		}
		b.WriteByte('\n')
		for _, m := range req.Messages {
			s.writeMessage(&b, m)
		}
	}
	return b.String()
}

func toolNames(specs []llm.ToolSpec) []string {
	names := make([]string, len(specs))
	for i, spec := range specs {
		names[i] = spec.Name
	}
	return names
}

func (s *stage) writeMessage(b *strings.Builder, m *host.Message) {
	for _, p := range m.Parts {
		fmt.Fprintf(b, "\t%s: %s\n", m.Role, s.names.replace(partText(p)))
	}
}

func partText(p host.Part) string {
	switch p := p.(type) {
	case *host.Text:
		return strings.ReplaceAll(p.Text, "\n", "\n\t\t")
	case *host.Reasoning:
		return "(thinks) " + p.Text
	case *host.ToolCall:
		return fmt.Sprintf("calls %s#%s %s", p.Name, p.ID, p.Arguments)
	case *host.ToolResult:
		if p.IsError {
			return fmt.Sprintf("%s#%s failed: %s", p.Name, p.ID, p.ContentText())
		}
		return fmt.Sprintf("%s#%s: %s", p.Name, p.ID, p.Content)
	}
	return string((&host.Message{Role: host.User, Parts: []host.Part{p}}).AppendJSON(nil))
}

func (s *stage) newCalls() string {
	if s.history == nil {
		return ""
	}
	var b strings.Builder
	all := s.history.Calls()
	for _, line := range all[s.seenCalls:] {
		s.seenCalls++
		b.WriteString(s.names.replace(line) + "\n")
	}
	return b.String()
}

// namer numbers the host's ids in the order in which they appear: <1>, <2>...
type namer struct{ seen map[string]string }

// A UUID is 36 characters with dashes at these places.
const uuidLength = 36

func isUUID(s string) bool {
	for i := range uuidLength {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		c := s[i]
		hex := c >= '0' && c <= '9' || c >= 'a' && c <= 'f'
		if dash != (c == '-') || !dash && !hex {
			return false
		}
	}
	return true
}

func (n *namer) replace(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		if len(text) >= uuidLength && isUUID(text) {
			b.WriteString(n.name(text[:uuidLength]))
			text = text[uuidLength:]
			continue
		}
		b.WriteByte(text[0])
		text = text[1:]
	}
	return b.String()
}

func (n *namer) name(id string) string {
	if n.seen == nil {
		n.seen = map[string]string{}
	}
	if n.seen[id] == "" {
		n.seen[id] = "<" + strconv.Itoa(len(n.seen)+1) + ">"
	}
	return n.seen[id]
}
