package statedoc

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// From outside one cannot see that a state knows its size without being written:
// it shows when the limit is met, and by then the numbers have to be right.
func TestAStateKnowsItsSize(t *testing.T) {
	values := []string{"null", "false", "[]", "{}", `"a\"\n\u0001é"`, "12.50", `[1,"x",{"":[]}]`, `{"a":{"b":[0]},"~/":"\ud800"}`}
	paths := []string{"/a", "/a/0", "/a/-", "/a/b", "/a/b/0", "/", "/~0~1", "/a/2", "", "/l", "/l/0", "/l/-"}
	rapid.Check(t, func(t *rapid.T) {
		s, err := read(`{"a":{"b":[1,2]},"l":[[],{}]}`)
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 30).Draw(t, "patches") {
			op := jsondoc.Op{
				Op:   rapid.SampledFrom([]string{"add", "add", "replace", "remove", "move", "copy"}).Draw(t, "op"),
				Path: rapid.SampledFrom(paths).Draw(t, "path"), From: rapid.SampledFrom(paths).Draw(t, "from"),
				Value: json.RawMessage(rapid.SampledFrom(values).Draw(t, "value")),
			}
			_ = s.Patch([]jsondoc.Op{op}) // that most do not apply is part of it
			if want := len(jsondoc.Encode(s.doc)); s.size != want {
				t.Fatalf("after %+v the state takes itself for %d bytes: %s is %d", op, s.size, s.json(), want)
			}
			if rapid.Bool().Draw(t, "asked") && string(s.json()) != string(jsondoc.Encode(s.doc)) {
				t.Fatalf("after %+v the state writes itself as %s, and is %s", op, s.json(), jsondoc.Encode(s.doc))
			}
		}
	})
}
