package badgerkv_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/kv/badgerkv"
)

// A device on which no file can be created although it has free bytes, as if another
// program had used all of its inodes.
func mergeWaitsForFiles(t *testing.T) {
	s, _ := openOnFullDevice(t, "merge")
	const entries = 20
	for n := range entries {
		if err := putNumbered(s, n); err != nil {
			t.Fatal(err)
		}
	}
	full, merged := make(chan func()), make(chan error, 1)
	go func() { merged <- badgerkv.MergeLevel0(s, func() { full <- useAllInodes(t) }) }()
	remove := <-full
	select {
	case err := <-merged:
		t.Errorf("the merge ended with no file to write to: %v", err)
		merged <- err
	case <-time.After(time.Second): // it waits
	}
	remove()
	if err := <-merged; err != nil {
		t.Error(err)
	}
	hasNumbered(t, s, entries)
}

// useAllInodes creates files on the device until it takes no more.
func useAllInodes(t *testing.T) (remove func()) {
	dir := filepath.Join(os.Getenv(fullDevice), "inodes")
	err := os.Mkdir(dir, 0o700)
	for n := 0; err == nil; n++ {
		err = os.WriteFile(filepath.Join(dir, fmt.Sprint(n)), nil, 0o600)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("use all inodes: %v", err)
	}
	return func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}
}
