package host_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/hosttest"
)

const driverText = "dial tcp 10.0.3.7:5432: password=hunter2"

// The caller of the library and the log get the whole text, the stored turn and
// events for clients do not.
func TestErrorsOfDriversAreForTheOperator(t *testing.T) {
	panics := hosttest.NewModel(hosttest.Say("x"))
	tests := map[string]struct {
		model host.Model
		opts  host.AgentOptions
		want  string
	}{
		"a model's server": {model: hosttest.NewModel(hosttest.Fail(host.Errorf(host.Unauthenticated, "%s", driverText))), want: driverText},
		"a panic": {model: panics, want: "hunter2", opts: host.AgentOptions{
			InstructionsFunc: func(context.Context, *host.InstructionsRequest) (string, error) { panic(driverText) }}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var stored *host.Turn
			history, err := host.NewHistory(&recorder{turn: &stored}, nil)
			if err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			h, err := host.New(&host.Options{SingleTenant: true, Model: tt.model, History: history, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			a, err := host.NewAgent("a", &tt.opts)
			if err != nil {
				t.Fatal(err)
			}
			var failure error
			for ev, err := range h.Stream(t.Context(), a, &host.Request{Text: "hi", Thread: "t", Run: "r1"}) {
				if failure = err; err != nil {
					break
				}
				raw, err := ev.ForClient().MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Contains(raw, []byte("hunter2")) {
					t.Errorf("a client reads %s", raw)
				}
			}
			if failure == nil || !strings.Contains(failure.Error(), tt.want) {
				t.Errorf("the caller gets %v, want %q", failure, tt.want)
			}
			if !strings.Contains(log.String(), tt.want) || !strings.Contains(log.String(), "r1") {
				t.Errorf("the log has %s, want %q of run r1", &log, tt.want)
			}
			if stored == nil || stored.Error == nil || stored.Error.Message != "internal error (run r1)" {
				t.Errorf("stored is %+v", stored)
			}
		})
	}
}

// recorder keeps the last turn that it was given.
type recorder struct{ turn **host.Turn }

func (r *recorder) Get(context.Context, *host.HistoryRequest) (*host.Loaded, error) {
	return &host.Loaded{}, nil
}

func (r *recorder) AppendResults(_ context.Context, _ *host.HistoryRequest, turn *host.Turn) error {
	*r.turn = turn
	return nil
}

// An adapter's text is the operator's whatever code it comes with.
func TestAdaptersErrorsAreForTheOperator(t *testing.T) {
	for _, code := range []host.Code{host.InvalidArgument, host.Unavailable, host.Internal} {
		history, err := host.NewHistory(failingGetter{host.Errorf(code, "load: %w", errors.New(driverText))}, nil)
		if err != nil {
			t.Fatal(err)
		}
		h, err := host.New(&host.Options{SingleTenant: true, Model: hosttest.NewModel(hosttest.Say("x")), History: history})
		if err != nil {
			t.Fatal(err)
		}
		a, err := host.NewAgent("a", nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = h.Run(t.Context(), a, &host.Request{Text: "hi", Thread: "t", Run: "r1"})
		if got := fault.ForClient(err, "r1"); got == nil || got.Message != "internal error (run r1)" || got.Code != code || !strings.Contains(err.Error(), driverText) {
			t.Errorf("code %s: a client reads %v, the caller %v", code, got, err)
		}
	}
}

type failingGetter struct{ err error }

func (f failingGetter) Get(context.Context, *host.HistoryRequest) (*host.Loaded, error) {
	return nil, f.err
}
