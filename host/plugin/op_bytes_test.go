package plugin_test

// Scenario: guests pass bytes beside the JSON of host operations, and get them behind it.

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
)

// bytesGuest assembles a guest whose tool makes one host_call_bytes, or a host_call if data is
// nil, and outputs the result of that function and everything that it reads then.
func bytesGuest(t testing.TB, op, request string, data []byte) []byte {
	t.Helper()
	const opAt, requestAt, dataAt, readAt, room = 16, 128, 4096, 1 << 20, 1 << 21
	call := fmt.Sprintf("i32.const 0 i32.const %d i32.const %d i32.const %d i32.const %d", opAt, len(op), requestAt, len(request))
	if data == nil {
		call += " call $host_call"
	} else {
		call += fmt.Sprintf(" i32.const %d i32.const %d call $host_call_bytes", dataAt, len(data))
	}
	segment := ""
	if len(data) > 0 {
		segment = fmt.Sprintf("data %d %s\n", dataAt, hexText(data))
	}
	return wasmtest.Assemble(t, fmt.Sprintf(`
		import agenthost_v1 host_call i32 i32 i32 i32 -> i64 as $host_call
		import agenthost_v1 host_call_bytes i32 i32 i32 i32 i32 i32 -> i64 as $host_call_bytes
		import agenthost_v1 host_read i32 i32 i32 -> i32 as $host_read
		import agenthost_v1 output_write i32 i32 as $output_write
		memory 64
		export memory memory 0
		custom agenthost.manifest %q
		data %d %q
		data %d %q
		%sfunc $tool agenthost_tool i32 -> i32
		%s i64.store
		i32.const 0 i32.const 8 call $output_write
		i32.const %d i32.const %d i32.const 0 i32.const %d call $host_read call $output_write
		i32.const 0
		`, `{"abi":1,"name":"p","tools":[{"name":"t","description":"","parameters":{}}],"permissions":{"kv":"write","http":[{"host":"example.com"}]}}`,
		opAt, op, requestAt, request, segment, call, readAt, readAt, room))
}

// hexText writes bytes as a text of the assembler.
func hexText(data []byte) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range data {
		fmt.Fprintf(&b, `\x%02x`, c)
	}
	b.WriteByte('"')
	return b.String()
}

// bytesAnswer is what an operation has answered.
type bytesAnswer struct {
	failed bool
	json   string
	data   []byte
}

// askBytes has a guest make one operation.
func askBytes(t testing.TB, rt *plugin.Runtime, opts *plugin.CallOptions, op, request string, data []byte) bytesAnswer {
	t.Helper()
	granted := plugin.Permissions{KV: plugin.Write, HTTP: []plugin.HTTPAccess{{Scheme: "https", Host: "example.com"}}}
	p := load(t, rt, "bytes", bytesGuest(t, op, request, data), &plugin.LoadOptions{Granted: granted})
	defer p.Close()
	result, err := p.Call(t.Context(), "acme", "tool", []byte(`{"tool":"t"}`), opts)
	if err != nil {
		t.Fatalf("%s %s: %v", op, request, err)
	}
	answer := binary.LittleEndian.Uint64(result.Output)
	length, rest := uint32(answer), result.Output[8:]
	return bytesAnswer{answer>>32 == 1, string(rest[:length]), rest[length:]}
}

// meansTheSame reports whether two texts are the same JSON.
func meansTheSame(t testing.TB, a, b []byte) bool {
	t.Helper()
	var values [2]any
	for i, text := range [][]byte{a, b} {
		if err := json.Unmarshal(text, &values[i]); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}

type bytesVector struct {
	Name, Kind string
	Valid      bool
	Error      host.Code
	JSON       struct {
		Operation                string
		Request, Response, Plain json.RawMessage
		Data                     []byte
	}
}

func bytesVectors(t *testing.T, kind string) (list []bytesVector) {
	t.Helper()
	var all []bytesVector
	if err := json.Unmarshal(must[[]byte](t)(os.ReadFile("../../pdk/testdata/vectors/bytes.json")), &all); err != nil {
		t.Fatal(err)
	}
	for _, v := range all {
		if v.Kind == kind {
			list = append(list, v)
		}
	}
	return list
}

// A recording of operations knows no bytes beside them: it gets the request in base64, and
// its response reaches the guest with the bytes behind it.
func TestVectorsOfBytes(t *testing.T) {
	rt := newRuntime(t, nil)
	for _, v := range bytesVectors(t, "bytes_in") {
		t.Run(v.Name, func(t *testing.T) {
			asked := false
			opts := &plugin.CallOptions{Operate: func(_ context.Context, op string, request []byte, _ plugin.Operation) ([]byte, error) {
				asked = true
				if op != v.JSON.Operation || !meansTheSame(t, request, v.JSON.Plain) {
					t.Errorf("the guest asks for %s %s, want %s", op, request, v.JSON.Plain)
				}
				return []byte(`{}`), nil
			}}
			got := askBytes(t, rt, opts, v.JSON.Operation, string(v.JSON.Request), append([]byte{}, v.JSON.Data...))
			if asked != v.Valid || got.failed == v.Valid || got.failed && !strings.Contains(got.json, string(v.Error)) {
				t.Errorf("the operation is asked for: %t, and answers %+v, want an error %q", asked, got, v.Error)
			}
			if v.Valid {
				return
			}
			got = askBytes(t, rt, nil, v.JSON.Operation, string(v.JSON.Request), append([]byte{}, v.JSON.Data...))
			if !got.failed || !strings.Contains(got.json, string(v.Error)) {
				t.Errorf("the host's own operation answers %+v, want an error %q", got, v.Error)
			}
		})
	}
	for _, v := range bytesVectors(t, "bytes_out") {
		t.Run(v.Name, func(t *testing.T) {
			opts := &plugin.CallOptions{Operate: func(context.Context, string, []byte, plugin.Operation) ([]byte, error) { return v.JSON.Plain, nil }}
			got := askBytes(t, rt, opts, v.JSON.Operation, `{}`, []byte{})
			if v.JSON.Operation == "kv.put" {
				got = askBytes(t, rt, opts, v.JSON.Operation, `{"key":"k","value":""}`, []byte{})
			}
			if got.failed || !meansTheSame(t, []byte(got.json), v.JSON.Response) || !bytes.Equal(got.data, v.JSON.Data) {
				t.Errorf("the response is %+v, want %s and %x", got, v.JSON.Response, v.JSON.Data)
			}
		})
	}
}

// echoFetcher answers a request with its body.
type echoFetcher struct{}

func (echoFetcher) Fetch(_ context.Context, req *egress.Request) (*egress.Response, error) {
	return &egress.Response{Status: 200, Body: req.Body, URL: req.URL}, nil
}

// Bytes that are written beside JSON are read beside it and in base64, and the other way round.
func TestBytesBesideJSONAreThoseInIt(t *testing.T) {
	every := make([]byte, 600)
	for i := range every {
		every[i] = byte(i)
	}
	rt := newRuntime(t, &plugin.Options{Fetcher: echoFetcher{}})
	opts := &plugin.CallOptions{Call: host.NewCall("", nil, must[*host.State](t)(host.NewState(nil, 0)))}
	opts.Call.Scope = host.Scope{Tenant: "acme"}
	ask := func(op, request string, data []byte) bytesAnswer {
		t.Helper()
		got := askBytes(t, rt, opts, op, request, data)
		if got.failed {
			t.Fatalf("%s %s: %s", op, request, got.json)
		}
		return got
	}
	ask("kv.put", fmt.Sprintf(`{"key":"a","value":%d}`, len(every)), every)
	ask("kv.put", `{"key":"b","value":"AAEC"}`, nil)
	ask("artifact.write", fmt.Sprintf(`{"name":"plan","data":%d,"last":true}`, len(every)), every)
	for _, c := range []struct {
		op, request, field string
		data, want         []byte
	}{
		{"kv.get", `{"key":"a"}`, "value", nil, every},
		{"kv.get", `{"key":"b"}`, "value", nil, []byte{0, 1, 2}},
		{"artifact.read", `{"name":"plan"}`, "data", nil, every},
		{"http.fetch", `{"url":"https://example.com/x","method":"POST","body":600}`, "body", every, every},
	} {
		beside := ask(c.op, c.request, append([]byte{}, c.data...))
		var members map[string]any
		if err := json.Unmarshal([]byte(beside.json), &members); err != nil || members[c.field] != float64(len(c.want)) || !bytes.Equal(beside.data, c.want) {
			t.Errorf("%s %s answers %s and %x, %v; want %d bytes, %x", c.op, c.request, beside.json, beside.data, err, len(c.want), c.want)
		}
		if c.data != nil {
			continue
		}
		var within map[string][]byte
		_ = json.Unmarshal([]byte(ask(c.op, c.request, nil).json), &within) // other members are no bytes
		if !bytes.Equal(within[c.field], c.want) {
			t.Errorf("%s %s in base64 is %x, want %x", c.op, c.request, within[c.field], c.want)
		}
	}
	list := ask("kv.list", `{"values":true}`, []byte{})
	if want := append(bytes.Clone(every), 0, 1, 2); !bytes.Equal(list.data, want) || !strings.Contains(list.json, `"value":600`) {
		t.Errorf("kv.list answers %s and %x, want %x", list.json, list.data, want)
	}
}

// A number of bytes means nothing to host_call, which has no bytes beside its request.
func TestNumberOfBytesNeedsBytes(t *testing.T) {
	got := askBytes(t, newRuntime(t, nil), nil, "kv.put", `{"key":"a","value":0}`, nil)
	if !got.failed || !strings.Contains(got.json, "invalid_argument") || !strings.Contains(got.json, "host_call_bytes") {
		t.Errorf("kv.put with a number: %+v, want invalid_argument", got)
	}
}

// Bytes beside the JSON have the bounds and the price of those in it.
func TestBytesBesideJSONAreBoundedAndPaid(t *testing.T) {
	rt := newRuntime(t, nil)
	granted := plugin.Permissions{KV: plugin.Write}
	costOf := func(n int, limits plugin.Limits) (string, int64) {
		t.Helper()
		p := load(t, rt, "bytes", bytesGuest(t, "kv.put", fmt.Sprintf(`{"key":"a","value":%d}`, n), make([]byte, n)), &plugin.LoadOptions{Granted: granted, Limits: limits})
		defer p.Close()
		result, err := p.Call(t.Context(), "acme", "tool", []byte(`{"tool":"t"}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		return string(result.Output[8:]), result.Cost.Instructions
	}
	_, small := costOf(0, plugin.Limits{})
	_, large := costOf(160_000, plugin.Limits{})
	if more := large - small; more < 10_000 || more > 11_000 {
		t.Errorf("160,000 bytes cost %d more than none, want one for 16", more)
	}
	if got, _ := costOf(5000, plugin.Limits{ResponseBytes: 4096}); !strings.Contains(got, "resource_exhausted") || !strings.Contains(got, "ResponseBytes") {
		t.Errorf("more than ResponseBytes: %s", got)
	}
	if got := askBytes(t, rt, nil, "nothing.of.the.kind", `{}`, []byte{1}); !got.failed || !strings.Contains(got.json, "unimplemented") {
		t.Errorf("an unknown operation answers %+v", got)
	}
}
