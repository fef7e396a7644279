package badgerkv

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/dgraph-io/badger/v4"
)

// A log of a memtable holds the commits that no table has yet. It begins with the
// id of its key and a vector; every record is a header (two bytes of flags, then
// the lengths of key and value and a time as varints), the key, the value, and a
// checksum. The records of a commit end with one whose value is the revision.
const (
	logHeaderBytes    = 20
	logVectorAt       = 8
	recordOfCommit    = 1 << 6
	recordEndsCommit  = 1 << 7
	recordEndBytes    = len("!badger!txn") + 8 // key of the record that ends a commit
	maxRevisionDigits = 20
	logAllocation     = 2 * memTableSize // of the log that Badger writes to
)

// checkLogs examines the logs of the memtables. Badger replays a log up to the
// first record that is not right, because the end of the last commit may not have
// reached the disk, and cuts off the rest, including synced commits if the damage
// precedes them.
func checkLogs(dir string, inv *inventory, keys *badger.KeyRegistry) error {
	names := namesWith(dir, logExt)
	if err := checkNewestLog(names, inv); err != nil {
		return err
	}
	written := make(map[string]bool, len(inv.Logs))
	for _, m := range inv.Logs {
		written[m.Name] = m.Bytes > 0 && !m.Empty
	}
	for i, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return fileError(err)
		}
		if len(b) == 0 && (!written[name] || anyWritten(dir, names[i+1:])) {
			continue // see removeUnmade; or a removal was interrupted, which begins by cutting the file off: checkFlushed looks for the table
		}
		if len(b) < logHeaderBytes {
			return damaged(name, "it is cut off")
		}
		key, err := dataKey(keys, binary.BigEndian.Uint64(b))
		if err != nil {
			return damaged(name, err.Error())
		}
		if err := checkLog(b, key); err != nil {
			return damaged(name, err.Error())
		}
	}
	return nil
}

// anyWritten reports whether one of the logs is not empty.
func anyWritten(dir string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		info, err := os.Stat(filepath.Join(dir, name))
		return err == nil && info.Size() > 0
	})
}

// checkNewestLog detects a missing log. Badger removes a log when a table has its commits
// and no reader has its memtable any more, and a newer log exists by then. It makes the
// tables in the order of the logs; a reader may delay the removal of an older log. When Badger opens, it removes
// a log without a commit before it makes another.
func checkNewestLog(names []string, inv *inventory) error {
	for _, l := range slices.Backward(inv.Logs) {
		if !l.Used {
			continue
		}
		if len(names) == 0 || logID(names[len(names)-1]) < logID(l.Name) {
			return damaged(l.Name, "it is missing")
		}
		return nil
	}
	return nil
}

func logID(name string) int {
	id, err := strconv.Atoi(name[:len(name)-len(logExt)])
	if err != nil {
		return -1
	}
	return id
}

// checkFlushed detects that the MANIFEST lacks the tables of logs that are removed or cut off:
// Badger removes a log only after the MANIFEST names the log's table.
func checkFlushed(dir string, inv *inventory, created int) error {
	names := namesWith(dir, logExt)
	if len(inv.Logs) == 0 || len(names) == 0 {
		return nil
	}
	oldest, newest := logID(names[0]), logID(inv.Logs[len(inv.Logs)-1].Name)
	flushed := max(0, oldest-newest-1) // logs that were begun since, each when the one before was full
	for _, l := range inv.Logs {
		if l.Used && (logID(l.Name) < oldest || !anyWritten(dir, []string{l.Name})) {
			flushed++
		}
	}
	if created < inv.Created+flushed {
		return damaged(badger.ManifestFilename, fmt.Sprintf("it is cut off: it names %d tables that were made, of at least %d", created, inv.Created+flushed))
	}
	return nil
}

// logUsed reports whether a log has a whole commit, which Badger makes a table of. When
// it opens, Badger removes a log with no commit or only the beginning of one.
func logUsed(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, fileError(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, fileError(err)
	}
	for size := int64(logBeginning); ; size *= 8 {
		b := make([]byte, min(size, info.Size()))
		if _, err := io.ReadFull(f, b); err != nil {
			return false, fileError(err)
		}
		used, undecided := holdsCommit(b)
		if used || !undecided || size >= info.Size() {
			return used, nil
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return false, fileError(err)
		}
	}
}

// logBeginning is how much of a log is read first to find its first commit. Most commits
// are smaller, and the log is megabytes.
const logBeginning = 64 << 10

// holdsCommit reports whether the beginning of a log has a whole commit, and if not,
// whether a longer beginning may have one.
func holdsCommit(b []byte) (used, undecided bool) {
	for at := logHeaderBytes; at < len(b); {
		r, ok := readRecord(b, at)
		if !ok {
			keyLengthAt := at + 2
			return false, len(b) <= keyLengthAt || b[keyLengthAt] != 0 // no record has a key of no bytes
		}
		if r.endsCommit() {
			return true, false
		}
		at = r.end
	}
	return false, true
}

// checkLog detects whole commits behind a damaged record, and a log that was cut:
// Badger cuts logs only where a commit ends.
func checkLog(b, key []byte) error {
	stream, err := newLogCipher(b, key)
	if err != nil {
		return err
	}
	end, last, next := logHeaderBytes, uint64(0), logHeaderBytes
	for next < len(b) {
		r, ok := readRecord(b, next)
		if !ok {
			break
		}
		next = r.end
		if r.endsCommit() {
			end, last = next, stream.revision(b, r)
		}
	}
	if len(b) < logAllocation && end < len(b) {
		return fmt.Errorf("it is cut off at byte %d", len(b))
	}
	// One commit may be unfinished. Its end is on the disk if its records reached
	// the disk in another order; the end of a later one says that it was synced.
	// Bytes within a value may look like a record: callers choose values, and in a
	// store without a key the log has them unencrypted.
	commits := 0
	for at := skipTorn(b, next); ; at++ {
		n := bytes.IndexByte(b[min(at, len(b)):], recordEndsCommit)
		if at += n; n < 0 || at+2 >= len(b) {
			break
		}
		if b[at+1] != 0 {
			continue
		}
		r, ok := readRecord(b, at)
		if !ok || !r.endsCommit() || r.valueAt-r.keyAt != recordEndBytes {
			continue
		}
		revision := stream.revision(b, r)
		if commits++; commits > 1 || (last > 0 && revision > last+1) {
			return fmt.Errorf("a record near byte %d is damaged, and commits follow it", end)
		}
		at = r.end - 1
	}
	return nil
}

// skipTorn returns where to look for commits behind a damaged record: after it, if a
// process was killed in the middle of writing it, so that its end and all that follows
// were never written.
func skipTorn(b []byte, at int) int {
	r, _ := readRecord(b, at)
	if r.end > 0 && isZero(b[r.end-1:]) {
		return r.end
	}
	return at
}

// isZero reports whether b is all zeros, as in a part of a file that was never written.
func isZero(b []byte) bool {
	return len(b) == 0 || b[0] == 0 && bytes.Equal(b[1:], b[:len(b)-1])
}

// checkValueLogs examines the beginning of Badger's value logs. A store does not use
// the rest: its values are in tables.
func checkValueLogs(dir string, keys *badger.KeyRegistry) error {
	for _, name := range namesWith(dir, valueLogExt) {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return fileError(err)
		}
		defer f.Close()
		var header [logHeaderBytes + 1]byte
		n, _ := f.ReadAt(header[:], 0)
		if n < logVectorAt {
			continue // Badger writes it again from the start
		}
		if _, err := dataKey(keys, binary.BigEndian.Uint64(header[:])); err != nil {
			return damaged(name, err.Error())
		}
		if n > logHeaderBytes && header[logHeaderBytes] != 0 {
			return damaged(name, "it has records, which only the logs of memtables have")
		}
	}
	return nil
}

// record holds the positions of a record in a log.
type record struct {
	flags              byte
	at, keyAt, valueAt int
	checksumAt, end    int
}

func (r record) endsCommit() bool { return r.flags&recordEndsCommit != 0 }

// readRecord reads the record at a position of a log, and reports whether its form and
// checksum are right.
func readRecord(b []byte, at int) (record, bool) {
	r := record{at: at}
	if at+2 > len(b) {
		return r, false
	}
	r.flags = b[at]
	next, sizes := at+2, [3]uint64{}
	for i := range sizes {
		v, n := binary.Uvarint(b[next:])
		if n <= 0 {
			return r, false
		}
		sizes[i], next = v, next+n
	}
	rest := uint64(len(b) - next)
	if sizes[0] == 0 || sizes[0] > rest || sizes[1] > rest-sizes[0] || rest-sizes[0]-sizes[1] < crc32.Size {
		return r, false
	}
	r.keyAt = next
	r.valueAt = next + int(sizes[0])
	r.checksumAt = r.valueAt + int(sizes[1])
	r.end = r.checksumAt + crc32.Size
	return r, crc32.Checksum(b[at:r.checksumAt], castagnoli) == binary.BigEndian.Uint32(b[r.checksumAt:])
}

// logCipher decrypts records. Its block is nil for a log that is not encrypted.
type logCipher struct {
	block  cipher.Block
	vector [aes.BlockSize]byte
}

func newLogCipher(b, key []byte) (*logCipher, error) {
	c := &logCipher{}
	copy(c.vector[:], b[logVectorAt:logHeaderBytes])
	if key == nil {
		return c, nil
	}
	var err error
	c.block, err = aes.NewCipher(key)
	return c, err
}

// revision returns the revision in a record that ends a commit, 0 if it has none.
func (c *logCipher) revision(b []byte, r record) uint64 {
	if r.checksumAt-r.valueAt > maxRevisionDigits {
		return 0
	}
	text := append([]byte(nil), b[r.keyAt:r.checksumAt]...)
	if c.block != nil {
		vector := c.vector
		binary.BigEndian.PutUint32(vector[aes.BlockSize-4:], uint32(r.at))
		cipher.NewCTR(c.block, vector[:]).XORKeyStream(text, text)
	}
	revision, err := strconv.ParseUint(string(text[r.valueAt-r.keyAt:]), 10, 64)
	if err != nil {
		return 0
	}
	return revision
}
