package modulekv

import (
	"bytes"
	"errors"
	"testing"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/internal/testdriver"
)

func TestModulesAreKeptInParts(t *testing.T) {
	m := Modules{Driver: testdriver.New(t), Partition: "p", Keys: kv.NewKey("module")}
	wasm := bytes.Repeat([]byte("a module of some length "), 3*partBytes/24)
	digest := Digest(wasm)
	for range 2 {
		if err := m.Put(t.Context(), digest, wasm); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Put(t.Context(), Digest([]byte("x")), []byte("x")); err != nil {
		t.Fatal(err)
	}
	if got, err := m.Get(t.Context(), digest); err != nil || !bytes.Equal(got, wasm) {
		t.Errorf("Get = %d bytes, %v", len(got), err)
	}
	if err := m.Remove(t.Context(), digest); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Get(t.Context(), digest); fault.CodeOf(err) != fault.DataLoss {
		t.Errorf("Get of a removed module: %v", err)
	}
	if got, err := m.Get(t.Context(), Digest([]byte("x"))); err != nil || string(got) != "x" {
		t.Errorf("the other module is %q, %v", got, err)
	}
	if err := m.Put(t.Context(), "large", make([]byte, MaxBytes+1)); fault.CodeOf(err) != fault.ResourceExhausted {
		t.Errorf("Put of a large module: %v", err)
	}
}

// A writer or remover that has lost its condition changes nothing.
func TestConditionsHoldForEachPart(t *testing.T) {
	d := testdriver.New(t)
	m, fence := Modules{Driver: d, Partition: "p", Keys: kv.NewKey("module")}, kv.NewKey("fence")
	if err := m.Put(t.Context(), Digest([]byte("x")), []byte("x"), kv.Fence(fence, nil)); !errors.Is(err, kv.ErrPrecondition) {
		t.Errorf("Put: %v", err)
	}
	if err := m.Put(t.Context(), Digest([]byte("x")), []byte("x"), kv.Absent(fence)); err != nil {
		t.Fatal(err)
	}
	if err := m.Remove(t.Context(), Digest([]byte("x")), kv.Fence(fence, nil)); !errors.Is(err, kv.ErrPrecondition) {
		t.Errorf("Remove: %v", err)
	}
	if got, err := m.Get(t.Context(), Digest([]byte("x"))); err != nil || string(got) != "x" {
		t.Errorf("Get = %q, %v", got, err)
	}
}

func TestAModuleWithoutItsFirstPartIsWrittenAgain(t *testing.T) {
	d := testdriver.New(t)
	m := Modules{Driver: d, Partition: "p", Keys: kv.NewKey("module")}
	wasm := bytes.Repeat([]byte("x"), 2*partBytes)
	digest := Digest(wasm)
	if err := m.Put(t.Context(), digest, wasm); err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Apply(t.Context(), d, kv.Tx{Partition: "p", Writes: []kv.Write{kv.Delete(m.Keys.With(digest).WithUint(0))}}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Get(t.Context(), digest); fault.CodeOf(err) != fault.DataLoss {
		t.Errorf("Get of a module without a part: %v", err)
	}
	if err := m.Put(t.Context(), digest, wasm); err != nil {
		t.Fatal(err)
	}
	if got, err := m.Get(t.Context(), digest); err != nil || !bytes.Equal(got, wasm) {
		t.Errorf("Get = %d bytes, %v", len(got), err)
	}
}
