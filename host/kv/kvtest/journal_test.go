package kvtest_test

// Scenario: a journal of the operations that the driver kit makes.

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/agenthost/agenthost/host/kv"
)

// journal is a durable store of few lines: entries in memory, and in a file the
// Txs that made them, one record a commit, which make them again at the next
// start. hold is how many Txs it acknowledges before it writes them; any other
// number than 0 is a defect.
type journal struct {
	kv.Driver // in memory; it erases nothing durably, so it is no kv.Eraser
	mu        sync.Mutex
	file      *os.File
	hold      int
	held      []kv.Tx
}

func openJournal(dir string, hold int) (*journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "journal"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	j := &journal{Driver: kv.NewMemory(), file: f, hold: hold}
	return j, j.replay()
}

// replay commits what is in the file, up to a record that a crash cut off.
func (j *journal) replay() error {
	b, err := io.ReadAll(j.file)
	if err != nil {
		return err
	}
	rest := b
	for {
		n, width := binary.Uvarint(rest)
		if width <= 0 || n > uint64(len(rest)-width) {
			return j.file.Truncate(int64(len(b) - len(rest)))
		}
		var txs []kv.Tx
		record := rest[width : width+int(n)]
		if err := gob.NewDecoder(bytes.NewReader(record)).Decode(&txs); err != nil {
			return err
		}
		j.Driver.Commit(context.Background(), txs...)
		rest = rest[width+int(n):]
	}
}

func (j *journal) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	j.mu.Lock()
	defer j.mu.Unlock()
	results := j.Driver.Commit(ctx, txs...)
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
	var record bytes.Buffer
	if err := gob.NewEncoder(&record).Encode(j.held); err != nil {
		return err
	}
	j.held = nil
	b := binary.AppendUvarint(nil, uint64(record.Len()))
	_, err := j.file.Write(append(b, record.Bytes()...))
	return err
}

func (j *journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return j.Driver.Close()
}
