package kvtest_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/gob"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/agenthost/agenthost/host/kv"
)

// journal is a durable store of few lines: entries in memory, and in a file the
// Txs that made them, one line a commit, which make them again at the next
// start. hold is how many Txs it acknowledges before it writes them; any other
// number than 0 is a defect.
type journal struct {
	*kv.Memory
	mu   sync.Mutex
	file *os.File
	hold int
	held []kv.Tx
}

func openJournal(dir string, hold int) (*journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "journal"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	j := &journal{Memory: kv.NewMemory(), file: f, hold: hold}
	return j, j.replay()
}

// replay commits what is in the file, up to a line that a crash cut off.
func (j *journal) replay() error {
	lines := bufio.NewReader(j.file)
	size := int64(0)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return j.file.Truncate(size)
		}
		size += int64(len(line))
		var txs []kv.Tx
		raw := base64.NewDecoder(base64.StdEncoding, bytes.NewReader(line))
		if err := gob.NewDecoder(raw).Decode(&txs); err != nil {
			return err
		}
		j.Memory.Commit(context.Background(), txs...)
	}
}

func (j *journal) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	j.mu.Lock()
	defer j.mu.Unlock()
	results := j.Memory.Commit(ctx, txs...)
	for i, res := range results {
		if res.Err == nil {
			j.held = append(j.held, txs[i])
		}
	}
	if len(j.held) <= j.hold {
		return results
	}
	if err := j.write(); err != nil {
		for i := range results {
			results[i] = kv.Result{Err: err}
		}
	}
	return results
}

func (j *journal) write() error {
	var line bytes.Buffer
	raw := base64.NewEncoder(base64.StdEncoding, &line)
	err := errors.Join(gob.NewEncoder(raw).Encode(j.held), raw.Close())
	if err != nil {
		return err
	}
	j.held = nil
	line.WriteByte('\n')
	_, err = j.file.Write(line.Bytes())
	return err
}

func (j *journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return j.Memory.Close()
}
