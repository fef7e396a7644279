package statedoc

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// The operations of an update are sent later, when others have used its buffers.
func TestUpdatesKeepNothingOfTheirBuffers(t *testing.T) {
	type typed struct {
		N    int      `json:"n"`
		Text string   `json:"text"`
		List []string `json:"list"`
	}
	s, err := read(`{"n":0,"text":"","list":["a","b"]}`)
	if err != nil {
		t.Fatal(err)
	}
	s.Watch()
	set := func(n int, text string) {
		if err := Update(s, func(v *typed) error { v.N, v.Text, v.List[1] = n, text, text; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	set(111, "first")
	ops := s.TakeAllChanges()
	was := describeOps(ops)
	for range 10 {
		set(999, "other")
		set(888, "xxxxx")
	}
	if got := describeOps(ops); got != was || !strings.Contains(was, "111") {
		t.Errorf("the operations were %s and are %s", was, got)
	}
	if got := string(s.json()); got != `{"list":["a","xxxxx"],"n":888,"text":"xxxxx"}` {
		t.Errorf("the state is %s", got)
	}
}

func describeOps(ops []jsondoc.Op) string {
	raw, err := json.Marshal(ops)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}
