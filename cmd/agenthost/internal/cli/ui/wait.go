package ui

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/internal/termtext"
)

// sayWait shows the record of a wait for a data directory: for which command, and for how
// long.
func (c *Console) sayWait(r slog.Record) error {
	who, atMost := "another process", ""
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "error":
			var locked *kv.LockedError
			if err, ok := a.Value.Any().(error); ok && errors.As(err, &locked) {
				pid := strconv.Itoa(locked.Process)
				who = "process " + pid
				if name := commandOf(pid); name != "" {
					who = name + " (" + who + ")"
				}
			}
		case "at_most":
			atMost = ", at most " + a.Value.String()
		}
		return true
	})
	_, err := fmt.Fprintf(c, "agenthost: waiting for %s, which has the data directory open%s\n", who, atMost)
	return err
}

// commandOf returns the name and the first word of a process's command line, where the
// system tells; other words may be private.
func commandOf(pid string) string {
	line, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
	if err != nil {
		return ""
	}
	words := bytes.Split(line, []byte{0})
	name := filepath.Base(string(words[0]))
	if len(words) > 1 && len(words[1]) > 0 && !strings.HasPrefix(string(words[1]), "-") {
		name += " " + string(words[1])
	}
	return termtext.Printable(name)
}
