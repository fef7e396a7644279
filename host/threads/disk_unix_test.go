//go:build unix

package threads_test

// Scenario: a conversation on Badger grows by 500 turns; each takes less than a kilobyte
// of disk beside its text.

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
)

// onDisk is what the files below dir take of the device: Badger makes some that
// are mostly holes.
func onDisk(t testing.TB, dir string) (bytes int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			bytes += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// A turn leaves what was said and less than a kilobyte, whatever was said before.
func TestDiskOfAGrowingConversation(t *testing.T) {
	const turns = 500
	dir := t.TempDir()
	s, done := openBadger(t, dir)
	raw := 0
	for i := range turns {
		question, reply := fmt.Sprintf("question %d %s", i, host.NewID()), fmt.Sprintf("answer %d %s", i, host.NewID())
		run := host.NewID()
		head := threadtest.Say(t, s, "t1", run, host.UserText(question))
		threadtest.Answer(t, s, "t1", run, head, host.AssistantText(reply))
		raw += len(question) + len(reply)
	}
	done()
	size := onDisk(t, dir)
	t.Logf("%d turns of %d bytes of text leave %d bytes, %d a turn beside the text", turns, raw, size, (size-int64(raw))/turns)
	const perTurn = 1000
	if size > int64(raw)+turns*perTurn {
		t.Errorf("%d turns leave %d bytes, more than their %d and %d each", turns, size, raw, perTurn)
	}
}
