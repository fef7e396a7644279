package lineedit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// The bounds of a history.
const (
	MaxHistoryLines = 1000
	MaxHistoryLine  = 16 << 10 // bytes; a longer line is not kept

	maxHistoryFile = 4 << 20 // bytes that are read, from the end of the file
)

// History is the lines that were typed, the oldest first. The zero History is empty and
// in memory. It is safe for concurrent use, and several processes may append to one file.
type History struct {
	mu    sync.Mutex
	lines []string
	path  string // "" keeps none
}

// FileVariable is the environment variable with the file of the lines that are typed in
// conversations; "off" keeps none.
const FileVariable = "AGENTHOST_HISTORY"

// HistoryFile returns the file of the lines that this user types: that of FileVariable, or
// one in the directory for the state of programs. It is "" if none is to be kept, or if
// the user has no such directory.
func HistoryFile(getenv func(string) string) string {
	switch file := getenv(FileVariable); {
	case file == "off":
		return ""
	case file != "":
		return file
	}
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "agenthost", "history")
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "agenthost", "history")
	}
	return ""
}

// OpenHistory reads the history in a file, a JSON string a line, which only this user can
// read. A file that is not there is made when a line is kept. A line that is no JSON is
// left out. If the file has more than twice [MaxHistoryLines], OpenHistory shortens it.
func OpenHistory(path string) (*History, error) {
	h := &History{path: path}
	if path == "" {
		return h, nil
	}
	raw, err := readTail(path)
	if errors.Is(err, os.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the history of lines: %w", err)
	}
	n := 0
	for line := range bytes.Lines(raw) {
		var text string
		if json.Unmarshal(line, &text) == nil {
			h.remember(text)
		}
		n++
	}
	if n > 2*MaxHistoryLines || len(raw) == maxHistoryFile {
		err = h.rewrite()
	}
	return h, err
}

// readTail reads the end of a file, and makes it this user's alone.
func readTail(path string) (_ []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := f.Chmod(0o600); err != nil {
			return nil, err
		}
	}
	return io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-maxHistoryFile), maxHistoryFile))
}

// Len returns the number of lines.
func (h *History) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.lines)
}

func (h *History) line(i int) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i < 0 || i >= len(h.lines) {
		return "", errors.New("there is no such line")
	}
	return h.lines[i], nil
}

// add keeps a line. A file that cannot be written to does not stop a conversation: the
// line is then kept in memory.
func (h *History) add(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.remember(line) && h.path != "" {
		_ = h.append(line)
	}
}

// remember keeps a line in memory, and reports whether it did: not an empty line, nor one
// twice in a row. The lines are not shared yet, or h.mu is held.
func (h *History) remember(line string) bool {
	if strings.TrimSpace(line) == "" || len(line) > MaxHistoryLine || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return false
	}
	h.lines = append(h.lines, line)
	if len(h.lines) > MaxHistoryLines {
		h.lines = slices.Delete(h.lines, 0, len(h.lines)-MaxHistoryLines)
	}
	return true
}

func (h *History) append(line string) (err error) {
	if err := os.MkdirAll(filepath.Dir(h.path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(h.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	raw, err := json.Marshal(line)
	if err == nil {
		_, err = f.Write(append(raw, '\n'))
	}
	return err
}

// rewrite replaces the file by one with the lines that are kept.
func (h *History) rewrite() (err error) {
	f, err := os.CreateTemp(filepath.Dir(h.path), ".history")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	enc := json.NewEncoder(f)
	for _, line := range h.lines {
		if err = enc.Encode(line); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), h.path)
}
