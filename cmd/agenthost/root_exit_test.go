package main

import (
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
		2:   {usageError(errors.New("x"), "agenthost")},
		3:   {host.Errorf(host.InvalidArgument, "x"), host.Errorf(host.FailedPrecondition, "x")},
		4:   {host.Errorf(host.NotFound, "x"), fmt.Errorf("show: %w", host.Errorf(host.NotFound, "x"))},
		5:   {host.Errorf(host.PermissionDenied, "x"), host.Errorf(host.Unauthenticated, "x")},
		6:   {host.Errorf(host.ResourceExhausted, "x"), host.Errorf(host.DeadlineExceeded, "x")},
		7:   {host.Errorf(host.Unavailable, "x"), host.Errorf(host.DeadlineExceeded, "ask: %w", errors.Join(host.Errorf(host.DeadlineExceeded, "x"), project.ErrSlow))},
		42:  {quietExit(42), errors.Join(quietExit(42), nil)},
		130: {host.Errorf(host.Canceled, "x")},
	} {
		for _, err := range errs {
			var stderr strings.Builder
			if got := exit(&stderr, err, false); got != want {
				t.Errorf("exit(%v) = %d, want %d", err, got, want)
			}
			if quiet := err == nil || want == 42; quiet != (stderr.Len() == 0) {
				t.Errorf("exit(%v) printed %q", err, &stderr)
			}
		}
	}
}

func TestErrorsOfTheParserAreAboutTheCommandLine(t *testing.T) {
	for want, args := range map[string][]string{
		"unknown command \"thred\" for \"agenthost\"\n\nDid you mean this?\n\tthread\n":    {"thred"},
		"unknown command \"lst\" for \"agenthost thread\"\nSee: agenthost thread --help\n": {"thread", "lst"},
		"if any flags in the group [calls for] are set none of the others can be":          {"plugin", "bench", "x", "tool", "--calls", "1", "--for", "1s"},
		"unknown flag: --nosuch\nSee: agenthost --help\n":                                  {"--nosuch"},
	} {
		code, stdout, stderr := command(t, "", args...)
		if code != 2 || stdout != "" || !strings.Contains(stderr, want) || !strings.Contains(stderr, "See: agenthost") {
			t.Errorf("%q: exit code %d, %s%s\nwant %q", args, code, stdout, stderr, want)
		}
	}
}
