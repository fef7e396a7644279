package badgerkv

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"
)

const (
	// tableStep is the beginning of the message that Badger logs before it creates a
	// table in a compaction, in the goroutine of the compaction.
	tableStep = "[%d] LOG Compact. Added "
	// spareFiles is how many files must be creatable for a table: others may take some
	// descriptors before Badger does.
	spareFiles = 8
	// tableRetry is the wait before the next try, tableLogEvery the time between two
	// messages about it.
	tableRetry    = 100 * time.Millisecond
	tableLogEvery = 10 * time.Second
)

// waitForTable holds a compaction until files can be created in the store's directory.
// Badger 4.9.6 ignores the error of a table that it cannot create in a compaction,
// because the process has no file descriptor left or the device no room, and then
// removes the tables that were merged: all their entries would be lost.
func (e *engine) waitForTable(format string) {
	if !strings.HasPrefix(format, tableStep) {
		return
	}
	for logged := (time.Time{}); ; time.Sleep(tableRetry) {
		err := e.tryCreate()
		if err == nil || errors.Is(err, fs.ErrNotExist) { // the directory is gone, with all tables
			return
		}
		if time.Since(logged) >= tableLogEvery {
			e.logger.Error("tables cannot be merged: no file can be created; it is tried again", "error", err)
			logged = time.Now()
		}
	}
}

// tryCreate creates files in the store's directory, and removes them.
func (e *engine) tryCreate() (err error) {
	f, err := os.CreateTemp(e.dir, inventoryTemp) // the next start removes one that is left
	if err != nil {
		return err
	}
	open := []*os.File{f}
	defer func() {
		for _, f := range open {
			_ = f.Close() // nothing was written
		}
		err = errors.Join(err, ignoreMissing(os.Remove(f.Name())))
	}()
	for range spareFiles - 1 {
		again, err := os.Open(f.Name())
		if err != nil {
			return err
		}
		open = append(open, again)
	}
	return nil
}
