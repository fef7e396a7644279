package plugin

// These tests are inside the package for its assembler.

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
)

// asking assembles a guest of every kind whose exports answer with what a host
// operation answers, and with its status. With "" they answer with their input.
func asking(t testing.TB, operation, request string) []byte {
	t.Helper()
	body := fmt.Sprintf(`
		i32.const 0 i32.const %d i32.const %d i32.const %d call $host_call local.set 1
		i32.const 65536 i32.const 0 local.get 1 i32.wrap_i64 call $host_read drop
		i32.const 65536 local.get 1 i32.wrap_i64 call $output_write
		local.get 1 i64.const 4294967296 i64.div_u i32.wrap_i64`, len(operation), len(operation), len(request))
	if operation == "" {
		body = `
		i32.const 65536 i32.const 0 local.get 0 call $input_read drop
		i32.const 65536 local.get 0 call $output_write
		i32.const 0`
	}
	text := `
		import agenthost_v1 input_read i32 i32 i32 -> i32 as $input_read
		import agenthost_v1 output_write i32 i32 as $output_write
		import agenthost_v1 host_call i32 i32 i32 i32 -> i64 as $host_call
		import agenthost_v1 host_read i32 i32 i32 -> i32 as $host_read
		memory 4
		export memory memory 0
		custom agenthost.manifest ` + quote(everyKind) + `
		data 0 ` + quote(operation+request) + "\n"
	for e := abi.Tool; e < abi.ExportCount; e++ {
		text += fmt.Sprintf("func $f%d %s i32 -> i32 : i64\n%s\n", e, e, body)
	}
	return wasmtest.Assemble(t, text)
}

func TestCallGivesEachExportTheOperationsOfARun(t *testing.T) {
	rt := startRuntime(t, nil)
	state, err := host.NewState(map[string]int{"a": 1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	full := &CallOptions{State: state, View: llm.NewView([]*host.Message{host.UserText("one")}, "", nil)}
	all := Permissions{State: Write, Messages: true}
	const readState, readMessages = "state.get", "messages.get"
	for _, row := range []struct {
		name, export, operation string
		granted                 Permissions
		opts                    *CallOptions
		want                    string
	}{
		{"a tool reads the state", "tool", readState, all, full, `"value":{"a":1}`},
		{"a tool without a state reads an empty one", "tool", readState, all, nil, `"value":{}`},
		{"a tool that is granted nothing", "tool", readState, Permissions{}, full, "permission_denied"},
		{"a tool has no messages", "tool", readMessages, all, full, "failed_precondition"},
		{"a processor has messages", "process", readMessages, all, full, `"text":"one"`},
		{"a processor has no state", "process", readState, all, full, "failed_precondition"},
		{"a processor without a conversation", "process", readMessages, all, nil, "failed_precondition"},
		{"a router reads the state", "route", readState, all, full, `"value":{"a":1}`},
		{"a router reads messages", "route", readMessages, all, full, `"text":"one"`},
		{"a router that is not granted messages", "route", readMessages, Permissions{State: Read}, full, "permission_denied"},
		{"a provider reads the state", "provide", readState, all, full, `"value":{"a":1}`},
		{"an observer reads the state", "observe", readState, all, full, `"value":{"a":1}`},
		{"a provider reads what it keeps", "provide", "provider_state.get", Permissions{}, nil, `{"value":null,"revision":0}`},
		{"an observer reads what it keeps", "observe", "provider_state.get", Permissions{}, &CallOptions{Own: host.NewProviderState([]byte(`{"a":1}`))}, `{"value":{"a":1},"revision":1}`},
		{"a tool keeps nothing", "tool", "provider_state.get", all, full, "failed_precondition"},
		{"an operation that is not", "tool", "time.travel", all, full, "unimplemented"},
	} {
		t.Run(row.name, func(t *testing.T) {
			request := `{"path":""}`
			if row.operation == readMessages {
				request = `{"indices":[0]}`
			}
			p, err := rt.Load(context.Background(), "p", asking(t, row.operation, request), &LoadOptions{Granted: row.granted})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			got, err := p.Call(context.Background(), "t", row.export, []byte("{}"), row.opts)
			if err != nil || !strings.Contains(string(got.Output), row.want) {
				t.Errorf("Call = %s, %v, want %s", got.Output, err, row.want)
			}
			if isError := strings.Contains(string(got.Output), `"code"`); isError != got.GuestError {
				t.Errorf("GuestError = %v beside %s", got.GuestError, got.Output)
			}
		})
	}
}

func TestCallCompletesTheInput(t *testing.T) {
	rt := startRuntime(t, nil)
	p, err := rt.Load(context.Background(), "p", asking(t, "", ""), &LoadOptions{Granted: Permissions{Messages: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	opts := &CallOptions{View: llm.NewView([]*host.Message{host.UserText("one")}, "", nil)}
	for _, row := range []struct{ export, input, want string }{
		{"process", `{"processor":"p"}`, `"messages":[{`},
		{"process", `{ "processor" : "o" }`, `{"processor":"o","outline":{"count":1,"roles":"u"`},
		{"process", `{"processor":"o","messages":[]}`, `{"processor":"o","messages":[]}`},
		{"process", `{"processor":"o","outline":{}}`, `{"processor":"o","outline":{}}`},
		{"process", `{"processor":"nobody"}`, `{"processor":"nobody"}`},
		{"process", `null`, `null`},
		{"process", `[`, `[`},
		{"route", `{}`, `{"outline":{"count":1`},
		{"route", `{"router":"r"}`, `{"router":"r","outline":{"count":1`},
		{"tool", `{"tool":"t"}`, `{"tool":"t"}`},
	} {
		got, err := p.Call(context.Background(), "t", row.export, []byte(row.input), opts)
		if err != nil || !strings.Contains(string(got.Output), row.want) {
			t.Errorf("input of %s after %s is %s, %v, want %s", row.export, row.input, got.Output, err, row.want)
		}
		if json.Valid([]byte(row.input)) && !json.Valid(got.Output) {
			t.Errorf("input of %s after %s is not JSON: %s", row.export, row.input, got.Output)
		}
	}
}

func TestCallTellsWhatAToolEmits(t *testing.T) {
	rt := startRuntime(t, nil)
	p, err := rt.Load(context.Background(), "p", asking(t, "emit", `{"kind":"progress","data":{"done":1}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var got string
	opts := &CallOptions{Emit: func(kind string, data json.RawMessage) { got += kind + " " + string(data) }}
	if _, err := p.Call(context.Background(), "t", "tool", nil, opts); err != nil || got != `progress {"done":1}` {
		t.Errorf("emitted %q, %v", got, err)
	}
	if _, err := p.Call(context.Background(), "t", "tool", nil, nil); err != nil {
		t.Errorf("with nobody to tell: %v", err)
	}
}

func TestCallKnowsNoOtherExports(t *testing.T) {
	p := loadHand(t, "i32.const 0", Limits{})
	got, err := p.Call(context.Background(), "t", "memory", nil, nil)
	if got == nil || host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("Call = %v, %v, want code invalid_argument", got, err)
	}
}

func TestCallCostsAStartThatFails(t *testing.T) {
	p := loadHand(t, `
		func $init _initialize
			loop br 0 end
		---
		i32.const 0`, Limits{Instructions: 1_000_000, StartInstructions: 1_000_000})
	got, err := p.Call(context.Background(), "t", "tool", nil, nil)
	if host.CodeOf(err) != host.ResourceExhausted || got.Cost == nil || got.Cost.Instructions < 1_000_000 {
		t.Errorf("Call = %+v, %v, want a cost beside resource_exhausted", got.Cost, err)
	}
}
