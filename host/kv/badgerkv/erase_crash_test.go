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
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/internal/longtest"
)

// The tests here run this test binary as other processes: an eraser that is killed,
// and a scan that opens every file of a directory.
const (
	childJob   = "AGENTHOST_TEST_CHILD" // "erase" or "scan"
	childDir   = "AGENTHOST_TEST_DIR"
	childKey   = "AGENTHOST_TEST_KEY" // a letter, or nothing
	killsOf    = "AGENTHOST_ERASE_KILLS"
	fewKills   = 2
	killMarks  = 600
	largeMarks = 20 // of them are in values that have files of their own
	maxKillTry = 1200 * time.Millisecond
)

func optionsOf(letter string) *badgerkv.Options {
	if letter == "" {
		return nil
	}
	return encrypted(letter[0])
}

// TestChildProcess is not a test but what the child processes run.
func TestChildProcess(t *testing.T) {
	dir, opts := os.Getenv(childDir), optionsOf(os.Getenv(childKey))
	switch os.Getenv(childJob) {
	case "erase":
		s := mustOpen(t, dir, opts)
		go func() { // others write
			for i := uint64(0); ; i++ {
				size := 300
				if i%50 == 0 {
					size = largeValue
				}
				if _, err := kv.Apply(context.Background(), s, kv.Tx{Partition: "stays", Writes: []kv.Write{kv.Put(kv.NewKey("w").WithUint(i), words(size))}}); err != nil {
					if !errors.Is(err, kv.ErrClosed) {
						t.Errorf("a commit of another partition fails: %v", err)
					}
					return
				}
			}
		}()
		if err := s.Erase(t.Context(), "leaves"); err != nil {
			t.Fatal(err)
		}
		p, err := s.Prove(t.Context(), "leaves")
		if err != nil || !p.Gone() {
			t.Fatalf("Prove = %+v, %v", p, err)
		}
	case "scan":
		n, err := badgerkv.ScanFiles(dir, opts, "MARK-[0-9]{4}-")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("found %d\n", n)
	case "drop":
		s := mustOpen(t, dir, opts)
		for i := range uint64(100) {
			for _, partition := range []string{"leaves", "stays"} {
				if _, err := kv.Apply(t.Context(), s, kv.Tx{Partition: partition, Writes: []kv.Write{kv.Put(kv.NewKey("k").WithUint(i), words(300))}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		block(t, dir)
		err := s.Erase(t.Context(), "leaves")
		fmt.Printf("the erasure ends with %v\n", err)
		kill(t, os.Getpid())
	default:
		t.Skip("runs only as a child of the tests that start it")
	}
}

func child(t *testing.T, job, dir, key string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^TestChildProcess$")
	c.Env = append(os.Environ(), childJob+"="+job, childDir+"="+dir, childKey+"="+key)
	out := &bytes.Buffer{}
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c, out
}

// scan counts the markers that a program finds that opens every file of a copy of a
// directory.
func scan(t *testing.T, dir, key string) int {
	t.Helper()
	into := t.TempDir()
	if err := os.CopyFS(into, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(into)
	c, out := child(t, "scan", into, key)
	if err := c.Wait(); err != nil {
		t.Fatalf("the scan fails: %v\n%s", err, out)
	}
	_, rest, _ := strings.Cut(out.String(), "found ")
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(line)
	if err != nil {
		t.Fatalf("the scan says %q", out)
	}
	return n
}

// restored restores a backup with the key file that a store in dir has now.
func restored(t *testing.T, backup []byte, dir, key string) (into string) {
	t.Helper()
	into = filepath.Join(t.TempDir(), "restored")
	opts := &badgerkv.RestoreOptions{}
	if key != "" {
		opts.Store = *optionsOf(key)
	}
	if path := filepath.Join(dir, badgerkv.KeyFile); fileExists(path) { // of a store without a key, once something was erased
		opts.KeyFile = path
	}
	if _, err := badgerkv.Restore(t.Context(), into, bytes.NewReader(backup), opts); err != nil {
		t.Fatalf("restore: %v", err)
	}
	return into
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestAnErasureThatIsKilledEnds(t *testing.T) {
	kills := fewKills
	if text := os.Getenv(killsOf); text != "" {
		kills, _ = strconv.Atoi(text)
	} else {
		longtest.Need(t, "it starts processes that write for seconds")
	}
	for name, key := range map[string]string{"without a key": "", "with a key": "k"} {
		t.Run(name, func(t *testing.T) {
			template := t.TempDir()
			s := mustOpen(t, template, optionsOf(key))
			for i := range killMarks {
				var txs []kv.Tx
				for _, partition := range []string{"leaves", "stays"} {
					tx := kv.Tx{Partition: partition}
					for j := range uint64(4) {
						value := words(1500)
						if partition == "leaves" && j == 0 {
							if i < largeMarks {
								value = words(largeValue)
							}
							value = fmt.Appendf(value, "MARK-%04d-", i)
						}
						tx.Writes = append(tx.Writes, kv.Put(kv.NewKey("k").WithUint(uint64(i)).WithUint(j), value))
					}
					txs = append(txs, tx)
				}
				for _, r := range s.Commit(t.Context(), txs...) {
					if r.Err != nil {
						t.Fatal(r.Err)
					}
				}
			}
			var backup bytes.Buffer // of before
			if _, err := s.Backup(t.Context(), &backup, nil); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if n := scan(t, template, key); n != killMarks {
				t.Fatalf("the scan finds %d of %d markers before: it sees nothing", n, killMarks)
			}
			if n := scan(t, restored(t, backup.Bytes(), template, key), key); n != killMarks {
				t.Fatalf("the scan finds %d of %d markers in a backup that is restored before", n, killMarks)
			}
			ended := 0
			for range kills {
				dir := t.TempDir()
				if err := os.CopyFS(dir, os.DirFS(template)); err != nil {
					t.Fatal(err)
				}
				c, _ := child(t, "erase", dir, key)
				after := time.Duration(rand.Int64N(int64(maxKillTry)))
				killer := time.AfterFunc(after, func() { _ = c.Process.Kill() })
				if c.Wait() == nil {
					ended++
				}
				killer.Stop()
				c, out := child(t, "erase", dir, key)
				if err := c.Wait(); err != nil {
					t.Fatalf("killed after %v, the next process fails: %v\n%s", after, err, out)
				}
				if n := scan(t, dir, key); n != 0 {
					t.Errorf("killed after %v, the scan finds %d markers", after, n)
				}
				again := restored(t, backup.Bytes(), dir, key)
				if n := scan(t, again, key); n != 0 {
					t.Errorf("killed after %v, the scan finds %d markers in a backup of before that is restored with today's key file", after, n)
				}
				_ = os.RemoveAll(again)
				_ = os.RemoveAll(dir)
			}
			t.Logf("%d of %d ended before they were killed", ended, kills)
		})
	}
}

// block makes a directory in the place of the next log, so that Badger stops between the
// removal of the logs and the new one.
func block(t *testing.T, dir string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("the store has the logs %q, %v", logs, err)
	}
	n, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(logs[len(logs)-1]), ".mem"))
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, fmt.Sprintf("%05d.mem", n+1)), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// kill ends a process as kill -9 does.
func kill(t *testing.T, pid int) {
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
	select {} // it has a moment to live
}

// Badger drops a partition with all logs removed, or the last one cut off, before it makes
// the next one: a store opens after a kill there, and the erasure ends.
func TestAStoreOpensAfterAKillBetweenTheLogsOfADrop(t *testing.T) {
	for name, key := range map[string]string{"without a key": "", "with a key": "k"} {
		for what, cut := range map[string]bool{"the log is removed": false, "the log is cut off": true} {
			t.Run(name+", "+what, func(t *testing.T) {
				dir := t.TempDir()
				c, out := child(t, "drop", dir, key)
				if err := c.Wait(); err == nil || !strings.Contains(out.String(), "the erasure ends with") {
					t.Fatalf("the child ends with %v: %s", err, out)
				}
				logs, err := filepath.Glob(filepath.Join(dir, "*.mem"))
				if err != nil || len(logs) != 1 {
					t.Fatalf("the directory has the logs %q, %v, want the place of the next one", logs, err)
				}
				if err := os.Remove(logs[0]); err != nil { // the directory that stopped Badger
					t.Fatal(err)
				}
				if cut {
					if err := os.WriteFile(filepath.Join(dir, "00001.mem"), nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				s := mustOpen(t, dir, optionsOf(key))
				if err := s.Erase(t.Context(), "leaves"); err != nil {
					t.Fatal(err)
				}
				if p, err := s.Prove(t.Context(), "leaves"); err != nil || !p.Gone() {
					t.Errorf("Prove = %+v, %v", p, err)
				}
				n := 0
				for _, err := range kv.All(t.Context(), s, "stays", kv.Range{}) {
					if err != nil {
						t.Fatal(err)
					}
					n++
				}
				if n != 100 {
					t.Errorf("%d entries of the other partition are left, want 100", n)
				}
			})
		}
	}
}

// BenchmarkErasure measures what others write while 60 MB are erased, in percent of
// what they write before and after. The bars are 30 seconds, 80 % on average, 50 % in
// the worst second, and no write that fails. The worst second before and after says how
// much of that is the machine's.
func BenchmarkErasure(b *testing.B) {
	for name, opts := range map[string]*badgerkv.Options{"without a key": nil, "with a key": encrypted('k')} {
		b.Run(strings.ReplaceAll(name, " ", "-"), func(b *testing.B) {
			s := mustOpen(b, filepath.Join(b.TempDir(), "db"), opts)
			for i := range uint64(1500) {
				for _, partition := range []string{"leaves", "stays"} {
					tx := kv.Tx{Partition: partition}
					for j := range uint64(4) {
						tx.Writes = append(tx.Writes, kv.Put(kv.NewKey("k").WithUint(i).WithUint(j), words(10_000)))
					}
					if _, err := kv.Apply(b.Context(), s, tx); err != nil {
						b.Fatal(err)
					}
				}
			}
			d := kv.Group(s)
			var n, failed atomic.Int64
			stop := make(chan struct{})
			var writers sync.WaitGroup
			value := words(2000)
			for w := range uint64(4) {
				writers.Go(func() {
					for i := uint64(0); ; i++ {
						select {
						case <-stop:
							return
						default:
						}
						tx := kv.Tx{Partition: fmt.Sprintf("other %d", w), Writes: []kv.Write{kv.Put(kv.NewKey("w").WithUint(i), value)}}
						if _, err := kv.Apply(context.Background(), d, tx); err != nil {
							failed.Add(1)
						}
						n.Add(1)
						time.Sleep(2 * time.Millisecond) // a client that thinks
					}
				})
			}
			perSecond := func(until <-chan struct{}, atMost int) (counts []int64) {
				last := n.Load()
				for ended := false; !ended && len(counts) < atMost; { // the last second is whole, too
					second := time.After(time.Second)
					select {
					case <-until:
						ended = true
						<-second
					case <-second:
					}
					now := n.Load()
					counts, last = append(counts, now-last), now
				}
				return counts
			}
			before := perSecond(nil, 10)
			erased := make(chan struct{})
			var took time.Duration
			var written int64 // by others during the erasure
			go func() {
				defer close(erased)
				began := time.Now()
				written = n.Load()
				if err := s.Erase(b.Context(), "leaves"); err != nil {
					b.Errorf("Erase = %v", err)
				}
				took, written = time.Since(began), n.Load()-written
			}()
			during := perSecond(erased, 60)
			<-erased
			after := perSecond(nil, 10)
			close(stop)
			writers.Wait()
			mean := func(counts []int64) (sum float64) {
				for _, c := range counts {
					sum += float64(c)
				}
				return sum / float64(max(len(counts), 1))
			}
			base := (mean(before) + mean(after)) / 2
			b.ReportMetric(took.Seconds(), "s")
			b.ReportMetric(100*float64(written)/took.Seconds()/base, "average-%")
			b.ReportMetric(100*float64(slices.Min(append(during, 1<<40)))/base, "worst-%")
			b.ReportMetric(100*float64(min(slices.Min(before), slices.Min(after)))/base, "worst-otherwise-%")
			b.ReportMetric(float64(failed.Load()), "failed")
			b.ReportMetric(0, "ns/op")
		})
	}
}
