package fault_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/agenthost/agenthost/host/fault"
)

const driverText = "dial tcp 10.0.3.7:5432: password=hunter2"

func TestClientsReadTheHostsOwnWords(t *testing.T) {
	driver := errors.New(driverText)
	tests := []struct {
		name string
		err  error
		want string // "" is masked
	}{
		{"the code internal", fault.Errorf(fault.Internal, "a bug"), ""},
		{"the code data_loss", fault.Errorf(fault.DataLoss, "record 7 is damaged"), ""},
		{"a driver's error", driver, ""},
		{"a driver's error under a code", fault.Errorf(fault.Unavailable, "load: %w", driver), ""},
		{"a driver's error, twice wrapped", fault.Errorf(fault.Conflict, "turn: %w", fault.Errorf(fault.NotFound, "load: %w", driver)), ""},
		{"a code inside of a driver's error", fmt.Errorf("%s: %w", driverText, fault.Errorf(fault.NotFound, "no row")), ""},
		{"joined errors", errors.Join(fault.Errorf(fault.NotFound, "no thread"), driver), ""},
		{"an error that unwraps to itself", fault.Errorf(fault.NotFound, "load: %w", &loop{}), ""},
		{"a cause that the message does not repeat", &fault.Error{Code: fault.Unavailable, Message: "the store cannot be reached", Err: driver}, "the store cannot be reached"},
		{"the host's own words", fault.Errorf(fault.NotFound, "there is no thread %q", "t"), `there is no thread "t"`},
		{"words about what the caller sent", fault.Errorf(fault.InvalidArgument, "read: %w", errors.New("unexpected end")), "read: unexpected end"},
		{"a context's end", fault.Errorf(fault.Canceled, "ask: %w", context.Canceled), "ask: context canceled"},
		{"disclosed words", fmt.Errorf("run: %w", fault.Disclose(fault.Errorf(fault.Internal, "boom"))), "boom"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.want
			if want == "" {
				want = "internal error (run r1)"
			}
			got := fault.ForClient(tt.err, "r1")
			if got.Error() != want || got.Code != fault.CodeOf(tt.err) || got.Err != nil {
				t.Errorf("ForClient(%v) = %s %q, cause %v; want %s %q", tt.err, got.Code, got, got.Err, fault.CodeOf(tt.err), want)
			}
			if again := fault.ForClient(got, "r1"); again.Error() != want {
				t.Errorf("a second time it is %q", again)
			}
		})
	}
	if got := fault.ForClient(nil, "r1"); got != nil {
		t.Errorf("ForClient(nil) = %v", got)
	}
}

type loop struct{}

func (*loop) Error() string   { return "loop" }
func (l *loop) Unwrap() error { return l }
