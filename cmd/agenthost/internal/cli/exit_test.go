package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project"
)

func TestExitCodes(t *testing.T) {
	for want, errs := range map[int][]error{
		0:   {nil},
		1:   {errors.New("?"), host.Errorf(host.Internal, "x"), host.Errorf(host.Conflict, "x"), host.Errorf(host.Unimplemented, "x"), host.Errorf(host.DataLoss, "x")},
		2:   {UsageError(errors.New("x"), "agenthost")},
		3:   {host.Errorf(host.InvalidArgument, "x"), host.Errorf(host.FailedPrecondition, "x")},
		4:   {host.Errorf(host.NotFound, "x"), fmt.Errorf("show: %w", host.Errorf(host.NotFound, "x"))},
		5:   {host.Errorf(host.PermissionDenied, "x"), host.Errorf(host.Unauthenticated, "x")},
		6:   {host.Errorf(host.ResourceExhausted, "x"), host.Errorf(host.DeadlineExceeded, "x")},
		7:   {host.Errorf(host.Unavailable, "x"), host.Errorf(host.DeadlineExceeded, "ask: %w", errors.Join(host.Errorf(host.DeadlineExceeded, "x"), project.ErrSlow))},
		42:  {QuietExit(42), errors.Join(QuietExit(42), nil)},
		130: {host.Errorf(host.Canceled, "x")},
	} {
		for _, err := range errs {
			var stderr strings.Builder
			if got := Exit(&stderr, err, false); got != want {
				t.Errorf("exit(%v) = %d, want %d", err, got, want)
			}
			if quiet := err == nil || want == 42; quiet != (stderr.Len() == 0) {
				t.Errorf("exit(%v) printed %q", err, &stderr)
			}
		}
	}
}

func TestErrorsDoNotSteerTheTerminal(t *testing.T) {
	var out bytes.Buffer
	err := host.Errorf(host.Unavailable, "the server says \x1b]0;title\x07\u009b2J\u202e").WithHint("try\x1b[31m again")
	if code := Exit(&out, err, false); code == 0 || strings.ContainsAny(out.String(), "\x1b\x07\u009b\u202e") || !strings.Contains(out.String(), "\n  → try") {
		t.Errorf("exit code %d, %q", code, out.String())
	}
}
