package share_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/share"
)

func TestALockIsReadAsItWasWritten(t *testing.T) {
	lock := &share.Lock{}
	entry := share.Entry(&share.Artifact{Module: module(), Digest: digestOf([]byte("manifest"))}, "acme")
	for _, source := range []string{"oci://b/c:1", "oci://a/b:1", "oci://gone/b:1"} {
		lock.Set(source, entry)
	}
	lock.Keep(map[string]bool{"oci://a/b:1": true, "oci://b/c:1": true})
	var text, again bytes.Buffer
	if _, err := lock.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	read, err := share.ReadLock(bytes.NewReader(text.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := read.Get("oci://a/b:1"); !ok || got != entry {
		t.Errorf("Get = %+v, %t; want %+v", got, ok, entry)
	}
	if _, ok := read.Get("oci://gone/b:1"); ok {
		t.Error("an entry that was not kept is there")
	}
	if _, err := read.WriteTo(&again); err != nil || again.String() != text.String() {
		t.Errorf("written again it is %s (%v), not %s", again.String(), err, text.String())
	}
	if err := entry.Check(&share.Artifact{Module: []byte("another")}); fault.CodeOf(err) != fault.DataLoss {
		t.Errorf("Check of another module = %v, want code data_loss", err)
	}
	for _, bad := range []string{"", "[]", `{"version": 2}`, `{"version": 1, "plugins": {"a": {"digest": "sha256:1", "module": "x"}}}`} {
		if _, err := share.ReadLock(strings.NewReader(bad)); fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("ReadLock(%q) = %v, want code invalid_argument", bad, err)
		}
	}
	if _, err := share.ReadLock(strings.NewReader(strings.Repeat(" ", 5<<20))); fault.CodeOf(err) != fault.ResourceExhausted {
		t.Errorf("ReadLock of 5 MB = %v, want code resource_exhausted", err)
	}
}

func FuzzReadLock(f *testing.F) {
	f.Add([]byte(`{"version": 1, "plugins": {"oci://a/b:1": {"digest": "sha256:", "module": "sha256:", "size": 1}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		lock, err := share.ReadLock(bytes.NewReader(text))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if _, err := lock.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		if _, err := share.ReadLock(&b); err != nil {
			t.Errorf("a lock that was read and written is not read: %v", err)
		}
	})
}
