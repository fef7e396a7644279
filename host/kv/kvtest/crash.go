package kvtest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
)

// The environment and the sizes of Crash.
const (
	crashDirEnv  = "KVTEST_CRASH_DIR" // set in the child
	crashRounds  = 6
	crashMinAcks = 20 // a child lives for this many acknowledgements at least
	crashMaxAcks = 400

	crashWriters = 4       // goroutines in the child
	crashSteps   = 100_000 // of each; a child that is not killed ends
	crashParts   = 3       // keys that one Tx puts
	crashKeep    = 5       // number of Txs whose keys exist at a time
	crashPart    = 4 << 10 // bytes of the largest value
	crashAck     = "kvtest ack "
)

// crashPartitions are the partitions to which every writer writes, in one Commit of two
// Txs.
var crashPartitions = []string{"left", "right"}

// Crash checks that a store whose process is killed loses no acknowledged commit and
// keeps no half of a transaction. It runs the test binary again as a child that opens
// the store, writes to it from several goroutines and prints each acknowledgement;
// kills the child at some moment with SIGKILL; opens the store itself and compares; and
// does so several times with the same directory.
//
// Crash must be called from a test of its own: the child runs the test that
// called it, by name, and Crash does not return there.
//
// The writes of a killed process stay in the system's cache, so Crash finds writes that
// were acknowledged before they left the process and transactions that were cut in two,
// and does not find a missing sync.
func Crash(t *testing.T, openDir func(dir string) (kv.Driver, error)) {
	if dir := os.Getenv(crashDirEnv); dir != "" {
		crashChild(dir, openDir)
	}
	dir := filepath.Join(t.TempDir(), "store")
	acked := map[chain]uint64{}
	for round := range crashRounds {
		acks := crashMinAcks + rand.IntN(crashMaxAcks-crashMinAcks)
		killChild(t, dir, acks, acked)
		checkCrashed(t, dir, openDir, acked)
		if t.Failed() {
			t.Fatalf("after round %d, killed at acknowledgement %d", round, acks)
		}
	}
}

// chain is a series of Txs, each on the revision of the one before: its head
// holds the number of the last, and each Tx puts the keys of its number and
// deletes those of an older one.
type chain struct {
	partition string
	writer    uint64
}

func (c chain) key() kv.Key  { return kv.NewKey("chain").WithUint(c.writer) }
func (c chain) head() kv.Key { return c.key().With("head") }
func (c chain) part(n, i uint64) kv.Key {
	return c.key().With("part").WithUint(n).WithUint(i)
}

// value returns the value of part i of Tx n; its length depends on both.
func (c chain) value(n, i uint64) []byte {
	size := (n*2654435761 + i*40503 + c.writer) % crashPart
	return fmt.Appendf(nil, "%s %d %d %d %s", c.partition, c.writer, n, i, strings.Repeat("x", int(size)))
}

// tx returns Tx n of the chain, under the revision of Tx n-1.
func (c chain) tx(n, revision uint64) kv.Tx {
	tx := kv.Tx{
		Partition: c.partition,
		Conds:     []kv.Cond{kv.AtRevision(c.head(), revision)},
		Writes:    []kv.Write{kv.Put(c.head(), strconv.AppendUint(nil, n, 10))},
	}
	for i := range uint64(crashParts) {
		tx.Writes = append(tx.Writes, kv.Put(c.part(n, i), c.value(n, i)))
		if n > crashKeep {
			tx.Writes = append(tx.Writes, kv.Delete(c.part(n-crashKeep, i)))
		}
	}
	return tx
}

// state reads the head of the chain.
func (c chain) state(ctx context.Context, d kv.Driver) (n, revision uint64, err error) {
	e, err := d.Get(ctx, c.partition, c.head())
	if errors.Is(err, kv.ErrNotFound) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	n, err = strconv.ParseUint(string(e.Value), 10, 64)
	return n, e.Revision, err
}

// crashChild writes until it is killed. It never returns.
func crashChild(dir string, openDir func(dir string) (kv.Driver, error)) {
	go func() { // The parent holds the other end: the child exits when the parent is gone.
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(2)
	}()
	d, err := openDir(dir)
	if err != nil {
		crashExit(err)
	}
	var wg sync.WaitGroup
	for w := range uint64(crashWriters) {
		wg.Go(func() {
			if err := crashWrite(d, w); err != nil {
				crashExit(err)
			}
		})
	}
	wg.Wait()
	os.Exit(0)
}

func crashExit(err error) {
	fmt.Fprintln(os.Stderr, "kvtest: child:", err)
	os.Exit(2)
}

// crashWrite continues the chains of one writer where they stand.
func crashWrite(d kv.Driver, writer uint64) error {
	ctx := context.Background()
	n := make([]uint64, len(crashPartitions))
	revisions := make([]uint64, len(crashPartitions))
	for i, p := range crashPartitions {
		var err error
		if n[i], revisions[i], err = (chain{p, writer}).state(ctx, d); err != nil {
			return err
		}
	}
	for range crashSteps {
		txs := make([]kv.Tx, len(crashPartitions))
		for i, p := range crashPartitions {
			txs[i] = chain{p, writer}.tx(n[i]+1, revisions[i])
		}
		for i, res := range d.Commit(ctx, txs...) {
			if res.Err != nil {
				return res.Err
			}
			n[i], revisions[i] = n[i]+1, res.Revision
			// One write of one short line, so that it is in the pipe whole.
			fmt.Printf("%s%s %d %d\n", crashAck, crashPartitions[i], writer, n[i])
		}
	}
	return nil
}

// killChild runs a child, kills it after a number of acknowledgements, and
// notes in acked the last one of each chain.
func killChild(t *testing.T, dir string, acks int, acked map[chain]uint64) {
	t.Helper()
	cmd := exec.Command(testBinary(t), "-test.run="+exactly(t.Name()), "-test.count=1")
	cmd.Env = append(os.Environ(), crashDirEnv+"="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start child: %v", err)
	}
	seen := readAcks(stdout, acked, func(n int) {
		if n == acks {
			_ = cmd.Process.Kill() // the lines in the pipe are read before EOF
		}
	})
	_ = cmd.Wait() // "signal: killed"
	if seen < acks {
		t.Fatalf("child ended by itself after %d acknowledgements, want %d:\n%s", seen, acks, stderr.Bytes())
	}
}

func testBinary(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// exactly returns the -test.run pattern of one test.
func exactly(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// readAcks reads acknowledgements to the end and calls each with their number.
func readAcks(r io.Reader, acked map[chain]uint64, each func(n int)) (n int) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line, ok := strings.CutPrefix(lines.Text(), crashAck)
		if !ok {
			continue // of the testing package
		}
		var c chain
		var seq uint64
		if _, err := fmt.Sscan(line, &c.partition, &c.writer, &seq); err != nil {
			continue // cut off by the kill
		}
		acked[c] = seq
		n++
		each(n)
	}
	return n
}

// checkCrashed opens the store and compares it with the acknowledged commits.
func checkCrashed(t *testing.T, dir string, openDir func(dir string) (kv.Driver, error), acked map[chain]uint64) {
	t.Helper()
	d, err := openDir(dir)
	if err != nil {
		t.Fatalf("open after a crash: %v", err)
	}
	defer closeDriver(t, d)
	for _, p := range crashPartitions {
		for w := range uint64(crashWriters) {
			c := chain{p, w}
			acked[c] = checkChain(t, d, c, acked[c])
		}
	}
}

// checkChain checks that the head is the last acknowledged commit, or the one commit
// after it that was in progress, and that the store has exactly its parts. It returns
// the head, where the next child continues.
func checkChain(t *testing.T, d kv.Driver, c chain, acked uint64) (n uint64) {
	t.Helper()
	n, _, err := c.state(t.Context(), d)
	if err != nil {
		t.Errorf("chain %v: read head: %v", c, err)
		return acked
	}
	if n != acked && n != acked+1 {
		t.Errorf("chain %v: head is at %d, but %d was acknowledged", c, n, acked)
	}
	var want []kv.Key
	for m := max(n, crashKeep) - crashKeep + 1; m <= n; m++ {
		for i := range uint64(crashParts) {
			want = append(want, c.part(m, i))
		}
	}
	got := scan(t, d, c.partition, kv.Range{Prefix: c.key().With("part"), Limit: kv.MaxScanLimit})
	if fmt.Sprint(keys(got)) != fmt.Sprint(want) {
		t.Errorf("chain %v: at head %d the parts are %v, want %v", c, n, keys(got), want)
		return n
	}
	for j, e := range got.Entries {
		m, i := n-uint64(len(want)-1-j)/crashParts, uint64(j%crashParts)
		if !bytes.Equal(e.Value, c.value(m, i)) {
			t.Errorf("chain %v: %s holds %.40q, want %.40q", c, e.Key, e.Value, c.value(m, i))
		}
	}
	return n
}
