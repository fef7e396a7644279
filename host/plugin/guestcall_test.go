package plugin

// These tests are inside the package for its assembler.

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
)

// takingBack assembles a guest whose tool writes texts, takes back what it has written
// where one is "", and returns status.
func takingBack(t testing.TB, texts []string, status int) []byte {
	t.Helper()
	var data, body strings.Builder
	at := 16
	for _, text := range texts {
		if text == "" {
			body.WriteString("call $output_reset\n")
			continue
		}
		fmt.Fprintf(&data, "data %d %q\n", at, text)
		fmt.Fprintf(&body, "i32.const %d i32.const %d call $output_write\n", at, len(text))
		at += len(text)
	}
	return wasmtest.Assemble(t, fmt.Sprintf(`
		import agenthost_v1 output_write i32 i32 as $output_write
		import agenthost_v1 output_reset as $output_reset
		memory 1
		export memory memory 0
		custom agenthost.manifest %q
		%sfunc $tool agenthost_tool i32 -> i32
		%si32.const %d
		`, `{"abi":1,"name":"p","tools":[{"name":"t","description":"","parameters":{}}]}`, data.String(), body.String(), status))
}

func TestGuestsTakeBackWhatTheyHaveWritten(t *testing.T) {
	const lost, failure = `{"content":[1,2,`, `{"code":"not_found","message":"there is no order 3"}`
	rt := startRuntime(t, nil)
	for _, row := range []struct {
		claim  string
		texts  []string
		status int
		want   string
	}{
		{"a result that is half written becomes an error", []string{lost, "", failure}, 1, failure},
		{"a result becomes another", []string{lost, lost, "", `{"content":3}`}, 0, `{"content":3}`},
		{"nothing is taken back, twice", []string{"", "", `{"content":3}`}, 0, `{"content":3}`},
		{"what is taken back leaves room", []string{lost, "", lost, "", lost, "", failure}, 1, failure},
	} {
		t.Run(row.claim, func(t *testing.T) {
			p, err := rt.Load(context.Background(), "p", takingBack(t, row.texts, row.status), &LoadOptions{Limits: Limits{OutputBytes: 60}})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			for range 2 { // the second on the instance of the first
				got, err := p.Call(context.Background(), "t", "tool", []byte(`{"tool":"t"}`), nil)
				if err != nil || string(got.Output) != row.want || got.GuestError != (row.status == 1) {
					t.Errorf("the output is %s, %v, want %s", got.Output, err, row.want)
				}
			}
		})
	}
}

func TestAFunctionThatTheHostLacksIsRefusedByName(t *testing.T) {
	wasm := wasmtest.Assemble(t, "import agenthost_v1 output_seek i32 as $output_seek\nmemory 1\nexport memory memory 0\n"+
		`custom agenthost.manifest "{\"abi\":1,\"name\":\"p\"}"`+"\nfunc $tool agenthost_tool i32 -> i32\ni32.const 0\n")
	_, err := startRuntime(t, nil).Load(context.Background(), "p", wasm, nil)
	if host.CodeOf(err) != host.FailedPrecondition || !strings.Contains(err.Error(), `"output_seek", a function that this host does not have`) {
		t.Errorf("Load = %v, want failed_precondition with the function's name", err)
	}
}

// A guest's pointer to nothing may be any number.
func TestRangesOfNoBytesLieAnywhere(t *testing.T) {
	p := loadHand(t, `
		i32.const -1 i32.const 0 i32.const 0 call $input_read drop
		i32.const -1 i32.const 0 call $output_write
		i32.const 2 i32.const -1 i32.const 0 call $log
		i32.const 0 i32.const 0 i32.const -1 i32.const 0 call $host_call drop
		i32.const -1 i32.const 0 i32.const 0 call $host_read drop
		i32.const 0`, Limits{})
	if r, err := p.Call(t.Context(), "a", "tool", []byte("input"), nil); err != nil || r.GuestError {
		t.Errorf("a call with ranges of no bytes: %v", err)
	}
}

// Bytes beside a request lie in the guest's memory, or the call ends.
func TestBytesOutsideMemoryEndTheCall(t *testing.T) {
	const imported = "import agenthost_v1 host_call_bytes i32 i32 i32 i32 i32 i32 -> i64 as $host_call_bytes\n---\n"
	for _, data := range []string{"i32.const 65530 i32.const 7", "i32.const 0 i32.const -1", "i32.const -1 i32.const 1"} {
		p := loadHand(t, imported+"i32.const 0 i32.const 0 i32.const 0 i32.const 0 "+data+" call $host_call_bytes drop i32.const 0", Limits{})
		_, err := p.Call(t.Context(), "a", "tool", nil, nil)
		if host.CodeOf(err) != host.Internal || !strings.Contains(err.Error(), "host_call_bytes names") || IdleInstances(p) != 0 {
			t.Errorf("%s: %v, want internal", data, err)
		}
	}
}
