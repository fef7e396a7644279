package host_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
)

// The kinds of errors of documents have the codes of the domain.
func TestErrorsOfDocumentsHaveCodes(t *testing.T) {
	d := readDocument(t, `{"a":1}`)
	for _, c := range []struct {
		name string
		err  func() error
		want host.Code
	}{
		{"malformed JSON", func() error { _, err := host.ReadDocument(json.RawMessage("{")); return err }, host.InvalidArgument},
		{"an operation that does not apply", func() error { _, err := d.Patch([]host.PatchOp{{Op: "remove", Path: "/b"}}); return err }, host.InvalidArgument},
		{"a test that fails", func() error {
			_, err := d.Patch([]host.PatchOp{{Op: "test", Path: "/a", Value: json.RawMessage("2")}})
			return err
		}, host.Conflict},
		{"too many operations", func() error { _, err := d.Patch(make([]host.PatchOp, 10_001)); return err }, host.ResourceExhausted},
		{"an operation without a path", func() error { return json.Unmarshal([]byte(`{"op":"remove"}`), new(host.PatchOp)) }, host.InvalidArgument},
	} {
		err := c.err()
		if host.CodeOf(err) != c.want || fault.AsError(err).Code != c.want {
			t.Errorf("%s: %v has code %q, want %q", c.name, err, host.CodeOf(err), c.want)
		}
	}
}

// The words of a patch's bounds are the host's own, so clients read them.
func TestClientsReadTheBoundsOfPatches(t *testing.T) {
	d := readDocument(t, `{"a":`+strings.Repeat("[", 400)+strings.Repeat("]", 400)+`}`)
	for name, ops := range map[string][]host.PatchOp{
		"operations": make([]host.PatchOp, 10_001),
		"depth":      {{Op: "add", Path: "/b", Value: json.RawMessage(strings.Repeat("[", 600) + strings.Repeat("]", 600))}},
	} {
		_, err := d.Patch(ops)
		if got := fault.ForClient(err, "r"); got.Code != host.ResourceExhausted || got.Message != err.Error() {
			t.Errorf("%s: a client reads %v of %v", name, got, err)
		}
	}
}
