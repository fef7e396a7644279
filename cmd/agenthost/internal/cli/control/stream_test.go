package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/control"
	"github.com/agenthost/agenthost/host"
)

// counting answers with numbers; it fails after them if args is one.
func counting(_ context.Context, args json.RawMessage) (any, error) {
	if string(args) == `"refused"` {
		return nil, host.Errorf(host.NotFound, "there is nothing to count")
	}
	return control.Events(func(yield func(json.RawMessage, error) bool) {
		for i := range 3 {
			if !yield(json.RawMessage(fmt.Sprint(i)), nil) {
				return
			}
		}
		if string(args) == `"fail"` {
			yield(nil, host.Errorf(host.Conflict, "the count is off").WithHint("count again"))
		}
	}), nil
}

func TestEventsCome(t *testing.T) {
	path := serve(t, map[string]control.Handler{"count": counting, "echo": echo})
	for args, want := range map[string]struct {
		events []string
		code   host.Code
	}{
		"all": {[]string{"0", "1", "2"}, ""}, "fail": {[]string{"0", "1", "2"}, host.Conflict}, "refused": {nil, host.NotFound},
	} {
		var got []string
		var last error
		for ev, err := range control.Stream(t.Context(), path, "count", args) {
			if last = err; err == nil {
				got = append(got, string(ev))
			}
		}
		if !slices.Equal(got, want.events) || host.CodeOf(last) != want.code {
			t.Errorf("%s: %q, %v", args, got, last)
		}
	}
	// What answers at once has no events, and what streams has no result.
	for ev, err := range control.Stream(t.Context(), path, "echo", 1) {
		t.Errorf("echo: %s, %v", ev, err)
	}
	var result json.RawMessage
	if err := control.Call(t.Context(), path, "count", "all", &result); host.CodeOf(err) != host.Unavailable {
		t.Errorf("Call of what streams = %s, %v", result, err)
	}
}

func TestAClientThatHangsUpEndsTheEvents(t *testing.T) {
	ended := make(chan error, 1)
	path := serve(t, map[string]control.Handler{"wait": func(ctx context.Context, _ json.RawMessage) (any, error) {
		return control.Events(func(yield func(json.RawMessage, error) bool) {
			yield(json.RawMessage("1"), nil)
			<-ctx.Done() // it says nothing more, and learns of it all the same
			ended <- ctx.Err()
		}), nil
	}})
	for ev, err := range control.Stream(t.Context(), path, "wait", nil) {
		if err != nil || string(ev) != "1" {
			t.Errorf("%s, %v", ev, err)
		}
		break
	}
	if err := <-ended; err == nil {
		t.Error("the events do not end")
	}
	if err := control.Call(t.Context(), path, "nothing", nil, nil); host.CodeOf(err) != host.Unimplemented {
		t.Errorf("the next request: %v", err)
	}
}

func TestAHostThatLeavesInTheMiddle(t *testing.T) {
	path := socketPath(t)
	s, err := control.Listen(path, map[string]control.Handler{"wait": func(ctx context.Context, _ json.RawMessage) (any, error) {
		return control.Events(func(yield func(json.RawMessage, error) bool) {
			yield(json.RawMessage("1"), nil)
			<-ctx.Done()
		}), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	var last error
	for _, err := range control.Stream(t.Context(), path, "wait", nil) {
		if err != nil {
			last = err
			continue
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if host.CodeOf(last) != host.Unavailable {
		t.Errorf("the host has left: %v", last)
	}
}
