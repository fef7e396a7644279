package threads_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/iotest"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testdriver"
)

func create(t testing.TB, s *threads.Store, id string) {
	t.Helper()
	if _, _, err := s.For("").Create(t.Context(), &threads.CreateOptions{ID: id}); err != nil {
		t.Fatal(err)
	}
}

// countEntries counts what is stored for the default tenant.
func countEntries(t testing.TB, driver kv.Driver) int {
	t.Helper()
	n := 0
	for _, err := range kv.All(t.Context(), driver, threads.DefaultTenant, kv.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

func TestUploadsComeBack(t *testing.T) {
	driver := testdriver.New(t)
	s := threads.New(driver, nil)
	create(t, s, "a")
	for _, size := range []int{0, 1, threads.ChunkBytes - 1, threads.ChunkBytes, threads.ChunkBytes + 1, 3*threads.ChunkBytes + 7} {
		content := make([]byte, size)
		for i := range content {
			content[i] = byte(rand.Int())
		}
		sum := sha256.Sum256(content)
		ref, err := s.For("").Upload(t.Context(), "a", iotest.HalfReader(bytes.NewReader(content)), 0)
		if err != nil || ref.Size != size || ref.Digest != hex.EncodeToString(sum[:]) {
			t.Fatalf("Upload of %d bytes = %+v, %v", size, ref, err)
		}
		before := countEntries(t, driver)
		if again, err := s.For("").Upload(t.Context(), "a", bytes.NewReader(content), 0); err != nil || *again != *ref || countEntries(t, driver) != before {
			t.Errorf("the same again = %+v, %v; %d entries, before %d", again, err, countEntries(t, driver), before)
		}
		r, info, err := s.For("").OpenUpload(t.Context(), "a", ref.Digest)
		if err != nil || *info != *ref {
			t.Fatalf("OpenUpload = %+v, %v", info, err)
		}
		if err := iotest.TestReader(r, content); err != nil {
			t.Error(err)
		}
		if digest, ok := threads.UploadDigest(ref.URL()); !ok || digest != ref.Digest {
			t.Errorf("UploadDigest(%q) = %q, %v", ref.URL(), digest, ok)
		}
	}
	if _, err := s.For("").Fork(t.Context(), "a", &threads.ForkOptions{ID: "b"}); err != nil {
		t.Fatal(err)
	}
	if err := s.For("").Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := s.For("").Delete(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if n := countEntries(t, driver); n != 0 {
		t.Errorf("deleting leaves %d entries", n)
	}
}

func TestBadUploads(t *testing.T) {
	driver := testdriver.New(t)
	s := threads.New(driver, nil)
	create(t, s, "a")
	before := countEntries(t, driver)
	broken := errors.New("the line is dead")
	content := bytes.Repeat([]byte("x"), 2*threads.ChunkBytes)
	for name, c := range map[string]struct {
		id    string
		r     io.Reader
		limit int64
		code  host.Code
	}{
		"no thread":        {"b", bytes.NewReader(content), 0, host.NotFound},
		"too large":        {"a", bytes.NewReader(content), int64(len(content) - 1), host.ResourceExhausted},
		"broken off":       {"a", io.MultiReader(bytes.NewReader(content), iotest.ErrReader(broken)), 0, host.Unavailable},
		"canceled":         {"a", io.MultiReader(bytes.NewReader(content), iotest.ErrReader(context.Canceled)), 0, host.Canceled},
		"a negative limit": {"a", bytes.NewReader(content), -1, host.InvalidArgument},
	} {
		if _, err := s.For("").Upload(t.Context(), c.id, c.r, c.limit); host.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
		if n := countEntries(t, driver); n != before {
			t.Errorf("%s leaves %d entries more", name, n-before)
		}
	}
	ref, err := s.For("").Upload(t.Context(), "a", bytes.NewReader(content), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, digest := range []string{"", "x", ref.Digest[1:], ref.Digest + "0", "../" + ref.Digest, hex.EncodeToString(make([]byte, 32))} {
		if _, _, err := s.For("").OpenUpload(t.Context(), "a", digest); host.CodeOf(err) != host.NotFound {
			t.Errorf("OpenUpload(%q) = %v", digest, err)
		}
	}
	if _, _, err := s.For("other").OpenUpload(t.Context(), "a", ref.Digest); host.CodeOf(err) != host.NotFound {
		t.Errorf("another tenant reads it: %v", err)
	}
	// Every piece that is changed or gone is noticed.
	for e, err := range kv.All(t.Context(), driver, threads.DefaultTenant, kv.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Value) < threads.ChunkBytes {
			continue
		}
		changed := bytes.Clone(e.Value)
		changed[7] ^= 1
		for _, w := range []kv.Write{kv.Put(e.Key, changed), kv.Put(e.Key, e.Value[1:]), kv.Delete(e.Key)} {
			write(t, driver, w)
			r, _, err := s.For("").OpenUpload(t.Context(), "a", ref.Digest)
			if err == nil {
				_, err = io.Copy(io.Discard, r)
			}
			if host.CodeOf(err) != host.DataLoss {
				t.Errorf("an upload that was changed: %v", err)
			}
		}
		write(t, driver, kv.Put(e.Key, e.Value))
	}
}

func write(t testing.TB, driver kv.Driver, w kv.Write) {
	t.Helper()
	if _, err := kv.Apply(t.Context(), driver, kv.Tx{Partition: threads.DefaultTenant, Writes: []kv.Write{w}}); err != nil {
		t.Fatal(err)
	}
}

// An upload of which it is not known whether it was stored is there whole, or not at all.
func TestAnUploadInDoubtIsWhole(t *testing.T) {
	content := bytes.Repeat([]byte("x"), threads.ChunkBytes+1)
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	whole := func(s *threads.Store) bool {
		t.Helper()
		r, _, err := s.For("").OpenUpload(t.Context(), "a", digest)
		if host.CodeOf(err) == host.NotFound {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := iotest.TestReader(r, content); err != nil {
			t.Errorf("the upload is there: %v", err)
		}
		return true
	}
	stored := 0
	for at := 1; ; at++ {
		o := &outage{Driver: testdriver.New(t), err: kv.ErrInDoubt, written: true, for_: 1}
		s := threads.New(o.Driver, nil)
		create(t, s, "a")
		o.at = at
		_, err := threads.New(o, nil).For("").Upload(t.Context(), "a", bytes.NewReader(content), 0)
		if whole(s) && err != nil {
			stored++
		}
		if _, err := s.For("").Upload(t.Context(), "a", bytes.NewReader(content), 0); err != nil || !whole(s) {
			t.Errorf("the upload again after commit %d was in doubt: %v", at, err)
		}
		if err == nil {
			break // it needs fewer commits
		}
	}
	if stored != 1 {
		t.Errorf("the upload was stored by %d of the commits that were in doubt, want by one", stored)
	}
}

// forgetful is a driver that keeps no chunks, so that what is held is the
// store's doing.
type forgetful struct{ kv.Driver }

func (d forgetful) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	for i := range txs {
		for j := range txs[i].Writes {
			if w := &txs[i].Writes[j]; len(w.Value) >= threads.ChunkBytes {
				w.Value = bytes.Clone(w.Value[:1])
			}
		}
	}
	return d.Driver.Commit(ctx, txs...)
}

// An upload is never held whole: when its last byte has been read, a few of its pieces are
// in memory.
func TestAnUploadIsNotHeld(t *testing.T) {
	s := threads.New(forgetful{testdriver.New(t)}, nil)
	create(t, s, "a")
	const size = 64 << 20
	before := heapInUse()
	var after uint64
	r := io.MultiReader(io.LimitReader(zeros{}, size), atEnd(func() { after = heapInUse() }))
	if ref, err := s.For("").Upload(t.Context(), "a", r, 0); err != nil || ref.Size != size {
		t.Fatalf("Upload = %+v, %v", ref, err)
	}
	if after == 0 || after > before && after-before > size/16 {
		t.Errorf("at the end of an upload of %d bytes, %d bytes are in use, after %d before it", size, after, before)
	}
}

// atEnd is a reader of nothing that says that it was read.
type atEnd func()

func (f atEnd) Read([]byte) (int, error) { f(); return 0, io.EOF }

// heapInUse returns how many bytes of the heap are in use.
func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Neither is what is read of it.
func TestAReadUploadIsNotHeld(t *testing.T) {
	s := threads.New(zeroed{forgetful{testdriver.New(t)}}, nil)
	create(t, s, "a")
	const size = 64 << 20
	ref, err := s.For("").Upload(t.Context(), "a", io.LimitReader(zeros{}, size), 0)
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, _, err := s.For("").OpenUpload(t.Context(), "a", ref.Digest)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, r); n != size || err != nil {
		t.Fatalf("read %d bytes, %v", n, err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 4<<20 {
		t.Errorf("reading %d bytes allocates %d", size, got)
	}
}

// zeroed gives for the chunks that a forgetful driver has forgotten the zeros that
// they were.
type zeroed struct{ kv.Driver }

var zeroChunk = make([]byte, threads.ChunkBytes)

func (d zeroed) Get(ctx context.Context, partition string, key kv.Key) (kv.Entry, error) {
	e, err := d.Driver.Get(ctx, partition, key)
	if len(e.Value) == 1 {
		e.Value = zeroChunk
	}
	return e, err
}

// Who reads an upload when its thread is deleted is told that.
func TestAnUploadIsDeletedWhileItIsRead(t *testing.T) {
	s := threads.New(testdriver.New(t), nil)
	create(t, s, "a")
	ref, err := s.For("").Upload(t.Context(), "a", io.LimitReader(zeros{}, 3*threads.ChunkBytes), 0)
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := s.For("").OpenUpload(t.Context(), "a", ref.Digest)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(r, make([]byte, threads.ChunkBytes)); err != nil {
		t.Fatal(err)
	}
	if err := s.For("").Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r); host.CodeOf(err) != host.NotFound {
		t.Errorf("reading on: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
