package main

// Scenario: a process that erases a tenant is killed at any moment, and the next one ends its work.

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/trace"
	"github.com/agenthost/agenthost/internal/longtest"
)

// The tests here kill a process that erases a tenant from a data directory, and scan
// every file of the directory: the store with its logs, tables, large values and key
// file, traces, and what is temporary.
const (
	eraseChildEnv = "AGENTHOST_TEST_ERASE_CHILD" // the data directory
	eraseKillsEnv = "AGENTHOST_TEST_ERASE_KILLS" // how many processes are killed for each kind of directory
	fewEraseKills = 1
	tenantMarks   = 600
	marksInARun   = 100
	maxEraseLife  = 1500 * time.Millisecond
)

var tenantMark = regexp.MustCompile(`MARK[0-9]{4}OFTHETENANT`)

// TestEraseChildProcess is not a test but what the child process runs.
func TestEraseChildProcess(t *testing.T) {
	data := os.Getenv(eraseChildEnv)
	if data == "" {
		t.Skip("runs only as a child of the test that starts it")
	}
	env := &environment{stdin: strings.NewReader(""), stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}
	os.Exit(run(context.Background(), []string{"data", "erase", "acme", "--data", data, "--yes"}, env))
}

func TestAKilledEraseOfATenantEnds(t *testing.T) {
	kills := fewEraseKills
	if text := os.Getenv(eraseKillsEnv); text != "" {
		kills, _ = strconv.Atoi(text)
	} else {
		longtest.Need(t, "it starts processes that write for seconds")
	}
	for name, key := range map[string]string{"without a key": "", "with a key": strings.Repeat("5a", 32)} {
		t.Run(name, func(t *testing.T) {
			dir, exits := dataProject(t, key)
			template, backup := filepath.Join(dir, "template"), filepath.Join(dir, "backup")
			for first := 0; first < tenantMarks; first += marksInARun {
				var text strings.Builder
				for i := range marksInARun {
					fmt.Fprintf(&text, "MARK%04dOFTHETENANT ", first+i)
				}
				exits(0, "", "run", dir, "--data", template, "--thread", fmt.Sprint("t", first), "--tenant", "acme", text.String())
			}
			exits(0, "zebrafinch", "run", dir, "--data", template, "--thread", "t1", "--tenant", "globex", "the secret")
			exits(0, "", "data", "backup", backup, "--data", template)
			if n := scanData(t, template, key); n != tenantMarks {
				t.Fatalf("the scan finds %d of %d markers before: it sees nothing", n, tenantMarks)
			}
			exits(0, fmt.Sprintf("traces: %d", tenantMarks/marksInARun), "data", "prove", "acme", "--data", template)
			for range kills {
				data := filepath.Join(t.TempDir(), "data")
				if err := os.CopyFS(data, os.DirFS(template)); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(data, 0o700); err != nil {
					t.Fatal(err)
				}
				life := killErase(t, data, key)
				exits(0, "Nothing of it is left.", "data", "erase", "acme", "--data", data, "--yes")
				if n := scanData(t, data, key); n != 0 {
					t.Errorf("killed after %v, the scan finds %d markers", life, n)
				}
				again := filepath.Join(t.TempDir(), "again")
				exits(0, "Left out ", "data", "restore", backup, "--data", again, "--key-file", datadir.KeyFilePath(data))
				if n := scanData(t, again, key); n != 0 {
					t.Errorf("killed after %v, the scan finds %d markers in a backup of before, restored with today's keys", life, n)
				}
				exits(0, "zebrafinch", "thread", "show", "t1", "--data", again, "--tenant", "globex")
				_, _ = os.RemoveAll(data), os.RemoveAll(again)
			}
		})
	}
}

// killErase has a process erase the tenant, and kills it at some moment.
func killErase(t *testing.T, data, key string) time.Duration {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^TestEraseChildProcess$")
	c.Env = append(os.Environ(), eraseChildEnv+"="+data, datadir.KeyVariable+"="+key)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	life := time.Duration(rand.Int64N(int64(maxEraseLife)))
	killer := time.AfterFunc(life, func() { _ = c.Process.Kill() })
	_ = c.Wait()
	killer.Stop()
	return life
}

// scanData counts the markers in a copy of a data directory: in the bytes of every
// file, in every entry that its store can read, and in the traces that its keys open.
func scanData(t *testing.T, data, key string) int {
	t.Helper()
	into := filepath.Join(t.TempDir(), "scan")
	if err := os.CopyFS(into, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(into)
	found := map[string]bool{}
	look := func(b []byte) {
		for _, m := range tenantMark.FindAll(b, -1) {
			found[string(m)] = true
		}
	}
	err := filepath.WalkDir(into, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		look(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := hex.DecodeString(key)
	if err != nil {
		t.Fatal(err)
	}
	db, err := badgerkv.Open(datadir.StorePath(into), &badgerkv.Options{Key: raw, PurgeInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	for partition, err := range db.Partitions(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range kv.All(t.Context(), db, partition, kv.Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			look([]byte(e.Key))
			look(e.Value)
		}
	}
	traces := datadir.TracesPath(into)
	opts := &trace.ReadOptions{Keys: db.Keys()}
	list, err := trace.List(traces, opts)
	if err != nil && host.CodeOf(err) != host.NotFound { // a restored store has none
		t.Fatal(err)
	}
	for _, summary := range list {
		traced, err := trace.Read(traces, summary.Run, opts)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(traced)
		if err != nil {
			t.Fatal(err)
		}
		look(text)
	}
	return len(found)
}
