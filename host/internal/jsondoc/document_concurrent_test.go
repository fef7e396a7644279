package jsondoc_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// A document is decoded, and its JSON is made, when somebody first asks: whoever
// asks at the same time gets the same.
func TestDocumentsAreSharedByManyReaders(t *testing.T) {
	const raw = `{"b":[1,{"c":2}], "a":{"n":9007199254740993}}`
	from, to := decode(t, raw), decode(t, `{"a":{"n":9007199254740992},"b":[1,{"c":2}]}`)
	var readers sync.WaitGroup
	for i := range 8 {
		readers.Go(func() {
			patched, err := from.Patch([]jsondoc.Op{{Op: "replace", Path: "/b/0", Value: json.RawMessage(fmt.Sprint(i))}})
			if err != nil {
				t.Error(err)
				return
			}
			for range 20 {
				if got, want := string(patched.JSON()), fmt.Sprintf(`{"a":{"n":9007199254740993},"b":[%d,{"c":2}]}`, i); got != want {
					t.Errorf("JSON = %s, want %s", got, want)
				}
				if got, want := string(from.JSON()), `{"a":{"n":9007199254740993},"b":[1,{"c":2}]}`; got != want {
					t.Errorf("JSON = %s, want %s", got, want)
				}
				if ops := from.Diff(to); len(ops) != 1 || ops[0].Path != "/a/n" || string(ops[0].Value) != "9007199254740992" {
					t.Errorf("Diff = %v", ops)
				}
			}
		})
	}
	readers.Wait()
}
