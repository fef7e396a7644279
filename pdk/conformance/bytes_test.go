package conformance

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
)

// Scenario: kits pass bytes beside the JSON of host operations, and get them behind it.

// passers are the kits with functions for that, by their language.
var passers = []string{"assemblyscript", "c", "go", "javascript", "javascript-standalone", "rust", "zig"}

// passed are the operations of the tool "bytes" of a guest, in order, as host_call would have
// them: a recording of operations has bytes in base64.
var passed = []struct {
	op, request, response string
	fails                 *host.Error
}{
	{op: "kv.put", request: `{"key":"k","value":"YQDDqQ==","revision":0}`, response: `{"revision":1}`},
	{op: "kv.get", request: `{"key":"k"}`, response: `{"value":"YQDDqQ==","revision":1}`},
	{op: "artifact.write", request: `{"name":"plan","media_type":"application/x-plan","data":"AAEC","last":true}`, response: `{"digest":"sha256:0"}`},
	{op: "artifact.read", request: `{"name":"plan"}`, response: `{"data":"AAEC","size":3,"digest":"sha256:0","media_type":"application/x-plan"}`},
	{op: "http.fetch", request: `{"method":"POST","url":"https://example.com/x","headers":[{"name":"Authorization","prefix":"Bearer ","secret":"KEY"}],"body":"eyJhIjoxfQ=="}`,
		response: `{"status":201,"headers":[{"name":"x","value":"y"}],"body":"eyJvayI6dHJ1ZX0="}`},
	{op: "kv.get", request: `{"key":"none"}`, fails: host.Errorf(host.NotFound, "there is no key none")},
}

func TestKitsPassBytesWithoutBase64(t *testing.T) {
	for _, language := range passers {
		t.Run(language, func(t *testing.T) {
			p := load(t, guests[language](t))
			for _, fails := range []bool{false, true} {
				asked := 0
				opts := &plugin.CallOptions{Operate: func(_ context.Context, op string, request []byte, _ plugin.Operation) ([]byte, error) {
					if asked == len(passed) {
						return nil, host.Errorf(host.Internal, "no more")
					}
					want := passed[asked]
					asked++
					got, _ := meant(t, string(request)).(object)
					delete(got, "length") // of artifact.read: how much at once is the choice of a kit
					delete(got, "offset")
					if op != want.op || !reflect.DeepEqual(any(got), meant(t, want.request)) {
						t.Errorf("it asks for %s %s, want %s %s", op, request, want.op, want.request)
					}
					if want.fails != nil {
						return nil, want.fails
					}
					return []byte(want.response), nil
				}}
				result, err := p.Call(t.Context(), "acme", "tool", fmt.Appendf(nil, `{"tool":"bytes","arguments":{"fails":%v}}`, fails), opts)
				if err != nil {
					t.Fatal(err)
				}
				if asked != len(passed) {
					t.Errorf("it has asked for %d operations of %d", asked, len(passed))
				}
				checkPassed(t, result, fails)
			}
		})
	}
}

// carried has a guest write an artifact of so many bytes and read it again.
func carried(t testing.TB, p *plugin.Plugin, size int, beside bool) *plugin.CallResult {
	t.Helper()
	state, err := host.NewState(nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	opts := &plugin.CallOptions{Call: host.NewCall("", nil, state)}
	opts.Call.Scope = host.Scope{Tenant: "acme"}
	input := fmt.Appendf(nil, `{"tool":"carry","arguments":{"size":%d,"bytes":%v}}`, size, beside)
	result, err := p.Call(t.Context(), "acme", "tool", input, opts)
	if err != nil || result.GuestError {
		t.Fatalf("an artifact of %d bytes: %s, %v", size, result.Output, err)
	}
	return result
}

// An artifact that takes several operations is carried whole, as bytes and in base64.
func TestKitsCarryArtifactsAsBytes(t *testing.T) {
	for _, language := range passers {
		p := load(t, guests[language](t))
		for _, size := range []int{0, 1, 512 << 10, 700_001} {
			for _, beside := range []bool{false, true} {
				t.Run(fmt.Sprint(language, " of ", size, " bytes, without base64: ", beside), func(t *testing.T) {
					output := decoded(t, string(carried(t, p, size, beside).Output))
					if want := decoded(t, fmt.Sprintf(`{"content":{"right":%d,"size":%d}}`, size, size)); !reflect.DeepEqual(output, want) {
						t.Errorf("the tool answers %v, want %v", output, want)
					}
				})
			}
		}
	}
}

// BenchmarkArtifact writes an artifact of 700 kB, about the largest that a run takes by default, and
// reads it again, in base64 and as bytes.
func BenchmarkArtifact(b *testing.B) {
	for _, language := range passers {
		for _, form := range []struct {
			name   string
			beside bool
		}{{"base64", false}, {"bytes", true}} {
			b.Run(language+"/"+form.name, func(b *testing.B) {
				p := load(b, guests[language](b))
				b.SetBytes(700_000)
				instructions := int64(0)
				for b.Loop() {
					instructions = carried(b, p, 700_000, form.beside).Cost.Instructions
				}
				b.ReportMetric(float64(instructions), "instructions/op")
			})
		}
	}
}

func checkPassed(t *testing.T, result *plugin.CallResult, fails bool) {
	t.Helper()
	output, _ := normal(decoded(t, string(result.Output)), true).(object)
	if fails {
		if !result.GuestError || output["code"] != "not_found" || output["message"] != "there is no key none" {
			t.Errorf("an error of the host that the tool returns is %v", output)
		}
		return
	}
	want := normal(decoded(t, `{"text":"a\u0000é","revision":1,"digest":"sha256:0","plan":"\u0000\u0001\u0002","type":"application/x-plan",
		"status":201,"body":"{\"ok\":true}","code":"not_found"}`), true)
	if got, _ := output["content"].(object); result.GuestError || !reflect.DeepEqual(any(got), want) {
		t.Errorf("the tool answers %v, want %v", output, want)
	}
}
