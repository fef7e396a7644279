package main

// Scenario: an operator finds a damaged thread and replaces its damaged parts.

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
)

func TestADamagedThreadIsFoundAndRepaired(t *testing.T) {
	dir := filepath.Join(openTempDir(t), "data")
	getenv := func(string) string { return "" }
	d, err := datadir.Open(t.Context(), dir, &datadir.Options{Getenv: getenv})
	if err != nil {
		t.Fatal(err)
	}
	importGreeting(t, d)
	for e, err := range kv.All(t.Context(), d.Driver, threads.DefaultTenant, kv.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(e.Value, []byte("hello")) || !strings.Contains(e.Key.String(), "/log/") {
			continue
		}
		bad := bytes.Replace(e.Value, []byte("hello"), []byte("jello"), 1)
		if _, err := kv.Apply(t.Context(), d.Driver, kv.Tx{Partition: threads.DefaultTenant, Writes: []kv.Write{kv.Put(e.Key, bad)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"data", "verify"}, 1, "not what was stored"},
		{[]string{"thread", "show", "t1"}, 1, "damaged"},
		{[]string{"thread", "repair", "t1"}, 0, "is lost: a line in its place says so"},
		{[]string{"thread", "show", "t1"}, 0, threads.DamagedText},
		{[]string{"data", "verify"}, 0, "All of it is what was stored"},
		{[]string{"thread", "repair", "t1"}, 0, "t1 can be read: nothing was changed."},
		{[]string{"thread", "repair", "t1", "--json"}, 0, `"messages":[]`},
	} {
		wantExit(t, getenv, step.code, step.want, append(step.args, "--data", dir)...)
	}
}
