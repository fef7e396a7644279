package report_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/report"
	"github.com/agenthost/agenthost/host/internal/statedoc"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
)

// sink is a reader, a meter and a tracer that keep the numbers of events.
type sink struct {
	read, measured, traced []string
	leaves                 int // at this event; 0 is never
	panics                 bool
	canceled               int
}

func (s *sink) Measure(_ llm.Scope, ev runevent.Event) { s.measured = append(s.measured, name(ev)) }
func (s *sink) Trace(_ llm.Scope, ev runevent.Event)   { s.traced = append(s.traced, name(ev)) }

func (s *sink) reporter(log *strings.Builder) *report.Reporter {
	return &report.Reporter{
		Scope: &llm.Scope{Tenant: "acme", Run: "r", Agent: "clerk"}, Logger: slog.New(slog.NewTextHandler(log, nil)), Meter: s, Tracer: s,
		Cancel: func() { s.canceled++ },
		Yield: func(ev runevent.Event, _ error) bool {
			if s.panics {
				panic("the reader's own")
			}
			s.read = append(s.read, name(ev))
			return len(s.read) != s.leaves
		},
	}
}

func name(ev runevent.Event) string {
	switch d := ev.Data.(type) {
	case *runevent.TextDelta:
		return fmt.Sprintf("%d %s", ev.Seq, d.Text)
	case *runevent.StatePatched:
		raw, _ := json.Marshal(d.Ops)
		return fmt.Sprintf("%d %s", ev.Seq, raw)
	case *runevent.ArtifactMade:
		return fmt.Sprintf("%d artifact %s", ev.Seq, d.Artifact.Name)
	default:
		return fmt.Sprintf("%d %T", ev.Seq, d)
	}
}

func TestAReaderThatLeavesCancelsTheRunOnce(t *testing.T) {
	s := &sink{leaves: 2}
	r := s.reporter(&strings.Builder{})
	for _, text := range []string{"a", "b", "c"} {
		r.Emit(&runevent.TextDelta{Text: text})
	}
	if want := []string{"0 a", "1 b"}; !slices.Equal(s.read, want) || s.canceled != 1 || !r.Broken {
		t.Errorf("the reader got %q and the run was canceled %d times, want %q and once", s.read, s.canceled, want)
	}
	if want := []string{"0 a", "1 b", "2 c"}; !slices.Equal(s.measured, want) || !slices.Equal(s.traced, want) {
		t.Errorf("the meter got %q and the tracer %q, want %q", s.measured, s.traced, want)
	}
}

func TestAReplayedRunIsNeitherMeasuredNorTraced(t *testing.T) {
	s := &sink{}
	r := s.reporter(&strings.Builder{})
	r.Replayed = true
	r.Emit(&runevent.TextDelta{Text: "a"})
	if len(s.read) != 1 || len(s.measured)+len(s.traced) > 0 {
		t.Errorf("the reader got %q, the meter %q and the tracer %q, want an event for the reader alone", s.read, s.measured, s.traced)
	}
}

// around keeps the reports of an agent used as a tool.
type around struct{ got []string }

func (a *around) Changed(revision int64) { a.got = append(a.got, fmt.Sprint("change ", revision)) }
func (a *around) Made(made chat.Artifact) {
	a.got = append(a.got, "artifact "+made.Name)
}

func TestTheRunAroundABranchSendsItsChanges(t *testing.T) {
	s, outer := &sink{}, &around{}
	r := s.reporter(&strings.Builder{})
	r.Emit(&runevent.TextDelta{Text: "a"})
	b := r.Branch()
	b.Around = outer
	state := newState(t)
	b.SendState(state)
	b.SendChanges(state, 7)
	b.SendArtifacts([]chat.Artifact{{Name: "plan"}})
	if want := []string{"change 7", "artifact plan"}; !slices.Equal(outer.got, want) {
		t.Errorf("the run around it got %q, want %q", outer.got, want)
	}
	if want := []string{"0 a", "0 artifact plan"}; !slices.Equal(s.read, want) || len(s.traced) != 1 {
		t.Errorf("the reader got %q, want %q; the tracer got %q, want the first", s.read, want, s.traced)
	}
}

func TestTheWholeStateIsSentBeforeItsChanges(t *testing.T) {
	s := &sink{}
	r := s.reporter(&strings.Builder{})
	state := newState(t)
	set := func(v int) {
		if err := state.Set("/n", v); err != nil {
			t.Fatal(err)
		}
	}
	set(1)
	r.SendState(state)
	r.SendState(state)
	set(2)
	r.SendState(state)
	set(3)
	r.SendChanges(state, math.MaxInt64)
	want := []string{`0 [{"op":"replace","path":"","value":{"n":1}}]`, `1 [{"op":"add","path":"/n","value":2}]`, `2 [{"op":"add","path":"/n","value":3}]`}
	if !slices.Equal(s.read, want) {
		t.Errorf("the reader got\n%s, want\n%s", strings.Join(s.read, "\n"), strings.Join(want, "\n"))
	}
}

func newState(t *testing.T) *statedoc.View {
	t.Helper()
	state, err := statedoc.New(map[string]any{}, 1000, nil)
	if err != nil {
		t.Fatal(err)
	}
	state.Watch()
	return state
}

func TestGuardRecoversFromCodeAndNotFromTheReader(t *testing.T) {
	var log strings.Builder
	s := &sink{}
	r := s.reporter(&log)
	err := r.Guard(t.Context(), "router", func() error { panic("boom") })
	if fault.CodeOf(err) != fault.Internal || err.Error() != "router panicked: boom" {
		t.Errorf("Guard: %v, want the panic with code internal", err)
	}
	if got := log.String(); !strings.Contains(got, "tenant=acme") || !strings.Contains(got, "panic=boom") {
		t.Errorf("the log has %q, want the tenant and the panic", got)
	}
	s.panics = true
	defer func() {
		if recover() == nil {
			t.Error("Guard recovered from a panic of the reader")
		}
	}()
	_ = r.Guard(t.Context(), "router", func() error { r.Emit(&runevent.TextDelta{}); return nil })
}

func TestLogMaskedWritesErrorsThatClientsDoNotRead(t *testing.T) {
	var log strings.Builder
	r := (&sink{}).reporter(&log)
	r.LogMasked(t.Context(), "run failed", fault.Errorf(fault.InvalidArgument, "no input"))
	r.LogMasked(t.Context(), "run failed", context.Canceled)
	if log.Len() > 0 {
		t.Errorf("the log has %q, want nothing of errors for clients", log.String())
	}
	r.LogMasked(t.Context(), "run failed", fmt.Errorf("dial 10.0.0.1: refused"))
	if got := log.String(); !strings.Contains(got, "dial 10.0.0.1: refused") {
		t.Errorf("the log has %q, want the whole error", got)
	}
}
