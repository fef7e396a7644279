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
var counting = control.Do("count", "Count.", func(_ context.Context, args json.RawMessage) (control.Events, error) {
	if string(args) == `"refused"` {
		return nil, host.Errorf(host.NotFound, "there is nothing to count")
	}
	return func(yield func(json.RawMessage, error) bool) {
		if string(args) == `"fail first"` {
			yield(nil, host.Errorf(host.Conflict, "there is another count"))
			return
		}
		for i := range 3 {
			if !yield(json.RawMessage(fmt.Sprint(i)), nil) {
				return
			}
		}
		if string(args) == `"fail"` {
			yield(nil, host.Errorf(host.Conflict, "the count is off").WithHint("count again"))
		}
	}, nil
})

func TestEventsCome(t *testing.T) {
	path := serve(t, counting)
	for args, want := range map[string]struct {
		events []string
		code   host.Code
	}{
		"all": {[]string{"0", "1", "2"}, ""}, "fail": {[]string{"0", "1", "2"}, host.Conflict}, "refused": {nil, host.NotFound}, "fail first": {nil, host.Conflict},
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
}

func TestAClientThatHangsUpEndsTheEvents(t *testing.T) {
	ended := make(chan error, 1)
	path := serve(t, control.Do("wait", "Wait.", func(ctx context.Context, _ struct{}) (control.Events, error) {
		return func(yield func(json.RawMessage, error) bool) {
			yield(json.RawMessage("1"), nil)
			<-ctx.Done() // it says nothing more, and learns of it all the same
			ended <- ctx.Err()
		}, nil
	}))
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
	s, err := control.Listen(path, nil, []control.Route{control.Do("wait", "Wait.", func(ctx context.Context, _ struct{}) (control.Events, error) {
		return func(yield func(json.RawMessage, error) bool) {
			yield(json.RawMessage("1"), nil)
			<-ctx.Done()
		}, nil
	})})
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
