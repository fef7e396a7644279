package rawbytes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/rawbytes"
)

// An operation without bytes runs others in its context, which have no part in its payload.
func TestOnlyOperationsWithBytesHaveAPayload(t *testing.T) {
	for op, want := range map[string]bool{"kv.put": true, "artifact.read": true, "tool.call": false, "billing.charge": false} {
		ctx, err := rawbytes.New(op, nil).Begin(t.Context())
		if err != nil || (rawbytes.Of(ctx) != nil) != want {
			t.Errorf("%s has a payload: %t, %v", op, rawbytes.Of(ctx) != nil, err)
		}
	}
	if rawbytes.Of(t.Context()) != nil {
		t.Error("a context without an operation has a payload")
	}
}

// An operation that runs within another one's, such as one of a guest that a store of the
// embedder calls, does not answer with bytes of that.
func TestAnOperationWithinAnotherHasItsOwnPayloadOrNone(t *testing.T) {
	outer, err := rawbytes.New("kv.get", nil).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]*rawbytes.Payload{"host_call": nil, "host_call_bytes without bytes": rawbytes.New("emit", nil)} {
		inner, err := p.Begin(outer)
		if err != nil || rawbytes.Of(inner) != nil {
			t.Errorf("%s within another operation: %v, %v, want no payload", name, rawbytes.Of(inner), err)
		}
	}
	own := rawbytes.New("kv.put", []byte("v"))
	if inner, err := own.Begin(outer); err != nil || rawbytes.Of(inner) != own {
		t.Errorf("host_call_bytes within another operation: %v, %v, want its own payload", rawbytes.Of(inner), err)
	}
}

// The guest may write over its memory while the operation runs.
func TestPayloadKeepsItsBytes(t *testing.T) {
	memory := []byte("before")
	ctx, err := rawbytes.New("kv.put", memory).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	copy(memory, "behind")
	var f rawbytes.Field
	if err := json.Unmarshal([]byte("6"), &f); err != nil {
		t.Fatal(err)
	}
	if err := rawbytes.Of(ctx).Take("kv.put", &f); err != nil || string(f.Bytes) != "before" {
		t.Errorf("the value is %q, %v", f.Bytes, err)
	}
}

// While a function that knows no payloads runs the operation, its own answers are plain, too.
func TestPlainOperationHasNoPayload(t *testing.T) {
	ctx, err := rawbytes.New("kv.get", nil).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := rawbytes.Of(ctx)
	response, err := p.Plainly([]byte(`{"key":"k"}`), func(req []byte) ([]byte, error) {
		out := abi.NewObject(0)
		rawbytes.Of(ctx).Write(out, "value", []byte("abc"))
		return out.End(), nil
	})
	if err != nil || string(response) != `{"value":3}` || string(p.Response()) != "abc" {
		t.Errorf("the response is %s with %q, %v", response, p.Response(), err)
	}
	if rawbytes.Of(ctx) == nil {
		t.Error("behind it the operation has no payload")
	}
}

// Whatever a guest asks and an operation answers, bytes are neither lost nor made up.
func FuzzPlainly(f *testing.F) {
	f.Add("kv.put", []byte(`{"key":"k","value":3}`), []byte("abc"), []byte(`{"revision":1}`))
	f.Add("http.fetch", []byte(`{"body":0}`), []byte{}, []byte(`{"body":"AAEC"}`))
	f.Add("kv.list", []byte(`{}`), []byte{}, []byte(`{"entries":[{"value":"AAEC"},{"value":7},null]}`))
	f.Add("artifact.read", []byte(`[]`), []byte{}, []byte(`null`))
	f.Fuzz(func(t *testing.T, op string, request, data, response []byte) {
		ctx, err := rawbytes.New(op, data).Begin(context.Background())
		if err != nil {
			if host.CodeOf(err) != host.InvalidArgument || len(data) == 0 {
				t.Fatalf("%s with %d bytes: %v", op, len(data), err)
			}
			return
		}
		p := rawbytes.Of(ctx)
		asked := false
		got, err := p.Plainly(request, func(plain []byte) ([]byte, error) {
			asked = true
			var in struct{ Data, Body, Value []byte }
			if len(data) > 0 && (json.Unmarshal(plain, &in) != nil || !bytes.Equal(append(append(in.Data, in.Body...), in.Value...), data)) {
				t.Fatalf("%s %s with %x is asked as %s", op, request, data, plain)
			}
			return response, nil
		})
		if err == nil && p != nil && (!asked || json.Valid(response) != json.Valid(got)) {
			t.Fatalf("%s answers %s for %s", op, got, response)
		}
	})
}
