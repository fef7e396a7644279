package badgerkv

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"github.com/agenthost/agenthost/host/kv"
)

// VerifyBackup reads a backup to its end and checks that it is whole and unchanged. key
// is the key of the store that made it, nil for none.
//
// Errors: [kv.ErrCorrupt], [kv.ErrKey] if the backup has another key, [kv.ErrFormat] if
// r is no backup or one of a newer version; errors of r.
func VerifyBackup(ctx context.Context, r io.Reader, key []byte, progress Progress) (*BackupInfo, error) {
	info, err := readBackup(ctx, r, key, progress, func(backupHeader, []byte, []byte) error { return nil })
	if err != nil {
		return nil, fmt.Errorf("verify backup: %w", err)
	}
	return info, nil
}

// readBackup calls fn with every entry. The slices are fn's for the call.
func readBackup(ctx context.Context, r io.Reader, key []byte, progress Progress, fn func(h backupHeader, key, value []byte) error) (*BackupInfo, error) {
	in := bufio.NewReader(r)
	header, line, err := readHeader(in)
	if err != nil {
		return nil, err
	}
	switch {
	case !header.Encrypted:
		key = nil
	case len(key) == 0:
		return nil, fmt.Errorf("%w: the backup is encrypted, and no key was given; give that of the store it is from", kv.ErrKey)
	}
	aead, err := newSeal(key, header.Salt)
	if err != nil {
		return nil, err
	}
	entries := bufio.NewReaderSize(&unsealer{r: in, aead: aead, header: line}, pieceBytes)
	t := newEntryCounter(header, progress)
	e := entryReader{in: entries}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		switch err := e.next(); {
		case err == io.EOF:
			return t.end(), nil
		case err != nil:
			return nil, err
		}
		t.add(len(e.key) + len(e.value))
		if err := fn(header, e.key, e.value); err != nil {
			return nil, err
		}
	}
}

func readHeader(in *bufio.Reader) (h backupHeader, line []byte, err error) {
	for len(line) == 0 || line[len(line)-1] != '\n' {
		b, err := in.ReadByte()
		if err != nil && err != io.EOF {
			return h, nil, err
		}
		if err == io.EOF || len(line) == maxHeaderBytes {
			return h, nil, fmt.Errorf("%w: it is no backup", kv.ErrFormat)
		}
		line = append(line, b)
	}
	if err := json.Unmarshal(line, &h); err != nil || h.Format != backupFormat || h.Version < 1 {
		return h, nil, fmt.Errorf("%w: it is no backup", kv.ErrFormat)
	}
	if h.Version > backupVersion {
		return h, nil, fmt.Errorf("%w: the backup has version %d, this program knows up to %d; use the version that wrote it, or a newer one", kv.ErrFormat, h.Version, backupVersion)
	}
	return h, line, nil
}

// entryReader reads entries into buffers of its own.
type entryReader struct {
	in         *bufio.Reader
	key, value []byte
}

// next reads an entry. After the last it returns io.EOF.
func (e *entryReader) next() error {
	if _, err := e.in.Peek(1); err != nil {
		return err
	}
	const prefix = 2 + kv.MaxPartitionBytes
	keyLen, err := e.length(prefix + kv.MaxKeyBytes)
	if err != nil {
		return err
	}
	valueLen, err := e.length(revisionBytes + sealOverhead + kv.MaxValueBytes)
	if err != nil {
		return err
	}
	e.key = append(e.key[:0], make([]byte, keyLen)...)
	e.value = append(e.value[:0], make([]byte, valueLen)...)
	for _, b := range [][]byte{e.key, e.value} {
		if _, err := io.ReadFull(e.in, b); err != nil {
			return cutOff(err)
		}
	}
	if keyLen < 3 || e.key[0] != dataSpace || len(e.key) < 3+int(e.key[1]) {
		return fmt.Errorf("%w: the backup has an entry that no store has", kv.ErrCorrupt)
	}
	return nil
}

func (e *entryReader) length(limit uint64) (int, error) {
	n, err := binary.ReadUvarint(e.in)
	if err != nil {
		return 0, cutOff(err)
	}
	if n > limit {
		return 0, fmt.Errorf("%w: the backup has an entry of %d bytes", kv.ErrCorrupt, n)
	}
	return int(n), nil
}
