package threads_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/testchild"
)

// An upload's memory is measured where it is used: a process of its own uploads to a
// store on disk and reads it back, while its parent watches the anonymous memory of
// that process. What the system keeps of files is not in it.
const (
	uploadChildEnv = "THREADS_TEST_UPLOAD_DIR"
	// largeUploadEnv has TestAnUploadTakesLittleMemory upload 2 GB, which takes minutes.
	largeUploadEnv = "AGENTHOST_TEST_LARGE_UPLOAD"

	smallUpload = 200 << 20
	largeUpload = 2 << 30
	// maxUploadMemory is what an upload and reading it may take beyond the idle process.
	maxUploadMemory = 64 << 20
)

func TestAnUploadTakesLittleMemory(t *testing.T) {
	if dir := os.Getenv(uploadChildEnv); dir != "" {
		uploadChild(dir)
	}
	longtest.Need(t, "uploads 200 MB")
	size := int64(smallUpload)
	if os.Getenv(largeUploadEnv) != "" {
		size = largeUpload
	}
	for _, name := range []string{"without a key", "with a key"} {
		t.Run(name, func(t *testing.T) {
			idle, most := watchUpload(t, strings.HasPrefix(name, "with "), size)
			t.Logf("%d MB: %d MB of anonymous memory idle, %d MB at most", size>>20, idle>>20, most>>20)
			if most-idle > maxUploadMemory {
				t.Errorf("an upload of %d MB took %d MB beyond %d MB idle, want at most %d", size>>20, (most-idle)>>20, idle>>20, maxUploadMemory>>20)
			}
		})
	}
}

// watchUpload returns the anonymous memory of a process that has its store open and
// the most that it had until it had uploaded and read size bytes.
func watchUpload(t *testing.T, encrypted bool, size int64) (idle, most int64) {
	t.Helper()
	child := testchild.Start(t, "TestAnUploadTakesLittleMemory", uploadChildEnv+"="+filepath.Join(t.TempDir(), "store"),
		fmt.Sprintf("THREADS_TEST_UPLOAD=%d %t", size, encrypted))
	// The child says a word after each megabyte and waits for one, so that every
	// sample is taken while it works on the next, however the two are scheduled.
	for line := range child.Lines() {
		now := anonymous(t, child.Cmd.Process.Pid)
		switch {
		case line == "idle":
			idle = now
		case line == "done":
			return idle, max(most, now)
		case line != "go on":
			t.Fatalf("the child says %q", line)
		}
		most = max(most, now)
		child.Tell("")
	}
	t.Fatal("the child ended before it was done")
	return 0, 0
}

var anonymousLine = regexp.MustCompile(`(?m)^RssAnon:\s+(\d+) kB$`)

// anonymous returns the anonymous memory of a process, in bytes.
func anonymous(t *testing.T, pid int) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	m := anonymousLine.FindSubmatch(b)
	if m == nil {
		t.Skip("the system does not tell the anonymous memory of a process")
	}
	n, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// uploadChild uploads, reads what it has uploaded, and ends.
func uploadChild(dir string) {
	if err := uploadAndRead(context.Background(), dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func uploadAndRead(ctx context.Context, dir string) error {
	var size int64
	var encrypted bool
	if _, err := fmt.Sscan(os.Getenv("THREADS_TEST_UPLOAD"), &size, &encrypted); err != nil {
		return err
	}
	opts := &badgerkv.Options{}
	if encrypted {
		opts.Key = make([]byte, 32)
	}
	db, err := badgerkv.Open(dir, opts)
	if err != nil {
		return err
	}
	s := threads.New(kv.Group(db), nil)
	if _, _, err := s.For("").Create(ctx, &threads.CreateOptions{ID: "a"}); err != nil {
		return err
	}
	answers := bufio.NewReader(os.Stdin)
	say := func(word string) {
		fmt.Println(word)
		_, _ = answers.ReadString('\n')
	}
	say("idle")
	ref, err := s.For("").Upload(ctx, "a", &paced{Reader: io.LimitReader(&counting{}, size), say: say}, size)
	if err != nil {
		return err
	}
	r, _, err := s.For("").OpenUpload(ctx, "a", ref.Digest)
	if err != nil {
		return err
	}
	if n, err := io.Copy(io.Discard, &paced{Reader: r, say: say}); n != size || err != nil {
		return errors.Join(fmt.Errorf("read %d of %d bytes", n, size), err)
	}
	say("done")
	return db.Close()
}

// paced says "go on" after each megabyte that was read.
type paced struct {
	io.Reader
	say  func(string)
	read int
}

func (p *paced) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	if p.read += n; p.read >= 1<<20 {
		p.read = 0
		p.say("go on")
	}
	return n, err
}

// counting yields bytes that no two pieces of an upload have in common, and that
// compression makes little of.
type counting struct{ state uint64 }

func (c *counting) Read(p []byte) (int, error) {
	for i := range p {
		c.state = c.state*6364136223846793005 + 1442695040888963407
		p[i] = byte(c.state >> 56)
	}
	return len(p), nil
}
