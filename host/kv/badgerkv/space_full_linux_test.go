package badgerkv_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/internal/testchild"
)

// A device that is full is one that was mounted for the test, small, in a process
// with mounts of its own: it needs no privilege where a user may have a namespace.

const (
	fullDevice = "BADGERKV_FULL_DEVICE"
	fullWriter = "BADGERKV_FULL_WRITER"

	deviceBytes = badgerkv.DefaultMinFree + 80<<20 // of memory, as far as it is filled
	deviceFiles = 1000
	fullValue   = 64 << 10

	noMount = "no device can be mounted" // what the child says where that is not allowed
)

func TestOnAFullDevice(t *testing.T) {
	if dir := os.Getenv(fullWriter); dir != "" {
		writeUntilItEnds(dir)
		return
	}
	if dir := os.Getenv(fullDevice); dir != "" {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,nr_inodes=%d,mode=700", deviceBytes, deviceFiles)); err != nil {
			t.Fatalf(noMount+": %v", err)
		}
		t.Run("an erasure waits for room", eraseWaitsForRoom)
		t.Run("a merge waits until files can be created", mergeWaitsForFiles)
		t.Run("commits are refused until there is room", refusedUntilThereIsRoom)
		t.Run("a process that dies of it loses nothing", diesAndLosesNothing)
		return
	}
	child := exec.Command(os.Args[0], "-test.run=^TestOnAFullDevice$", "-test.v")
	child.Env = append(os.Environ(), fullDevice+"="+t.TempDir())
	child.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := child.CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) || bytes.Contains(out, []byte(noMount)) {
		t.Skipf("wants a user namespace with a mount (user.max_user_namespaces, kernel.unprivileged_userns_clone): %v", err)
	}
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

// ballast takes room on the device until it is removed: all but so many bytes.
func ballast(t *testing.T, free int64) (remove func()) {
	t.Helper()
	path := filepath.Join(os.Getenv(fullDevice), "ballast")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Fallocate(int(f.Fd()), 0, 0, int64(st.Bavail)*st.Bsize-free); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// numbered is an entry that cannot be made smaller.
func numbered(n int) (kv.Key, []byte) {
	value := make([]byte, fullValue)
	_, _ = rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)}).Read(value)
	return kv.NewKey("n").WithUint(uint64(n)), value
}

func putNumbered(d kv.Driver, n int) error {
	key, value := numbered(n)
	_, err := kv.Apply(context.Background(), d, kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put(key, value)}})
	return err
}

func hasNumbered(t *testing.T, d kv.Driver, n int) {
	t.Helper()
	for i := range n {
		key, want := numbered(i)
		if e, err := d.Get(t.Context(), "acme", key); err != nil || !bytes.Equal(e.Value, want) {
			t.Errorf("what was acknowledged as number %d of %d is not there: %v", i, n, err)
			return
		}
	}
}

func refusedUntilThereIsRoom(t *testing.T) {
	dir := filepath.Join(os.Getenv(fullDevice), "guarded")
	s := mustOpen(t, dir, nil)
	const before = 50
	for n := range before {
		if err := putNumbered(s, n); err != nil {
			t.Fatal(err)
		}
	}
	remove := ballast(t, 1<<20)
	err := putNumbered(s, before)
	if !errors.Is(err, kv.ErrNoSpace) || !strings.Contains(err.Error(), "1 MiB are free") || !strings.Contains(err.Error(), "free some") {
		t.Fatalf("commit %v, want kv.ErrNoSpace, with the numbers and what to do", err)
	}
	key, _ := numbered(before)
	if _, err := s.Get(t.Context(), "acme", key); !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("Get of what was refused: %v, want kv.ErrNotFound", err)
	}
	hasNumbered(t, s, before)
	other := filepath.Join(os.Getenv(fullDevice), "other")
	if _, err := badgerkv.Open(other, nil); !errors.Is(err, kv.ErrNoSpace) {
		t.Errorf("Open of another: %v, want kv.ErrNoSpace", err)
	}
	remove()
	if err := putNumbered(s, before); err != nil {
		t.Fatalf("commit when there is room: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := mustOpen(t, dir, nil)
	hasNumbered(t, again, before+1)
	remove = ballast(t, 0)
	hasNumbered(t, again, before+1) // what is there is read on a device without a byte
	if err := again.Close(); !errors.Is(err, kv.ErrNoSpace) || !strings.Contains(err.Error(), "close it again") {
		t.Errorf("Close on a full device: %v, want kv.ErrNoSpace, with what to do", err)
	}
	hasNumbered(t, again, before+1)
	remove()
	if err := again.Close(); err != nil {
		t.Errorf("Close when there is room: %v", err)
	}
	last := mustOpen(t, dir, nil)
	hasNumbered(t, last, before+1)
	if err := errors.Join(putNumbered(last, before+1), last.Verify(), last.Close(), os.RemoveAll(dir)); err != nil {
		t.Error(err)
	}
}

// writeUntilItEnds writes with next to no reserve, on a device that is filled
// beside it.
func writeUntilItEnds(dir string) {
	s, err := badgerkv.Open(dir, &badgerkv.Options{MinFree: 1})
	for n := 0; err == nil; n++ {
		if err = putNumbered(s, n); err == nil {
			fmt.Println("stored", n)
		}
	}
	fmt.Println("refused:", err)
}

func diesAndLosesNothing(t *testing.T) {
	dir := filepath.Join(os.Getenv(fullDevice), "unguarded")
	remove := ballast(t, 24<<20)
	child, stored, last := testchild.Start(t, "TestOnAFullDevice", fullWriter+"="+dir), 0, ""
	for last = range child.Lines() {
		if number, ok := strings.CutPrefix(last, "stored "); ok {
			if n, err := strconv.Atoi(number); err != nil || n != stored {
				t.Fatalf("the writer says %q after %d", last, stored)
			}
			stored++
		}
	}
	t.Logf("%d stored, then %q, %v", stored, last, child.Cmd.Wait())
	if stored < 50 {
		t.Errorf("%d stored before there was no room, want more", stored)
	}
	remove()
	s := mustOpen(t, dir, nil)
	hasNumbered(t, s, stored)
	if err := putNumbered(s, stored+1); err != nil {
		t.Errorf("commit after the crash: %v", err)
	}
	if err := errors.Join(s.Verify(), s.Close()); err != nil {
		t.Error(err)
	}
}
