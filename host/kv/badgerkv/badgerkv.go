package badgerkv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/agenthost/agenthost/host/kv"
)

// Settings of Badger. Memory stays below 100 MB; with one of the two memtables being
// flushed, 2 tables at level 0 start a compaction and 6 hold back writers.
const (
	memTableSize      = 16 << 20
	numMemTables      = 2
	level0Tables      = 2
	level0TablesStall = 6
	blockCacheSize    = 32 << 20
	indexCacheSize    = 16 << 20
	valueLogFileSize  = 128 << 20
	valueThreshold    = 1 << 20 // Badger's maximum; smaller values lie beside their keys
	keptVersions      = 1
	lastLevel         = 6 // of the seven that Badger has by default
)

// DefaultMinFree is how many bytes must be free for a commit: enough for the files that
// Badger writes by itself, one memtable being written to a table and two more tables
// being merged.
const DefaultMinFree = 128 << 20

// closeFree is how many bytes must be free to close a store: enough for the table of
// the memtable.
const closeFree = 2 * memTableSize

// Options are settings of a store. The zero value is the default of each.
type Options struct {
	// Logger receives Badger's messages, routine ones at level debug. nil discards
	// them.
	Logger *slog.Logger
	// MinFree is how many bytes must be free on the device for a commit to begin; with
	// less, the commit fails with [kv.ErrNoSpace]. Badger writes through memory maps,
	// and on a full device such a write ends the process, which loses nothing that was
	// acknowledged. 0 is [DefaultMinFree].
	MinFree uint64
	// Key encrypts the store, with AES: 16, 24 or 32 bytes. nil does not encrypt. A
	// store keeps the key that it was created with; see [Rekey].
	Key []byte
	// Verify reads every table before the store opens, see [Check]. Open also does so,
	// whatever Verify says, if the last process did not close the store.
	Verify bool
	// PurgeInterval is how long deleted bytes stay in the store's files at most, apart
	// from the time that a purge takes, see [Store.Purge]. 0 is [DefaultPurgeInterval],
	// negative is never.
	PurgeInterval time.Duration
}

// Store is a [kv.Driver] in a directory.
type Store struct {
	engine    *engine
	keys      *keyring
	blobs     *blobs
	heads     heads
	merger    *tableMerger
	collector *blobCollector

	key      []byte
	interval time.Duration  // Options.PurgeInterval
	purges   sync.WaitGroup // of the purging goroutine
	closing  closeSignal

	uncollected atomic.Bool // a killed process may have left blobs

	stopInventory func() // and waits until it has stopped

	mu     sync.RWMutex // held for reading during a call, for writing by Close
	closed bool
}

var _ kv.Driver = (*Store)(nil)

// closeSignal ends long-running work when the store begins to close.
type closeSignal struct {
	sync.Mutex
	ch chan struct{}
}

// Open opens the store in dir, creating the directory and the store if they do not
// exist. nil options are the defaults. The caller closes the store.
//
// Errors: [kv.ErrLocked] if the store is open already, here or in another
// process; [kv.ErrReadOnly] if dir cannot be written to; [kv.ErrFormat] if dir holds
// other files, or a store of a newer version; [kv.ErrCorrupt] if the store's files are
// damaged; [kv.ErrNoSpace] if the device is full; [kv.ErrInvalid] if dir is empty, or a
// file, or the key is not of an allowed size; [kv.ErrKey] if the key is not the
// store's, in which case Open changes nothing.
func Open(dir string, opts *Options) (*Store, error) {
	if opts == nil {
		opts = &Options{}
	}
	abs, err := prepareDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open store %q: %w", dir, err)
	}
	s := &Store{
		engine: &engine{dir: abs, minFree: opts.MinFree, logger: opts.Logger, commit: (*badger.Txn).Commit, turn: make(chan struct{}, 1)},
		heads:  newHeads(),
		key:    slices.Clone(opts.Key),
	}
	s.merger = &tableMerger{engine: s.engine, purging: make(chan struct{}, 1)}
	if s.engine.logger == nil {
		s.engine.logger = slog.New(slog.DiscardHandler)
	}
	if s.engine.minFree == 0 {
		s.engine.minFree = DefaultMinFree
	}
	if err := s.engine.checkSpace(); err != nil {
		return nil, fmt.Errorf("open store %q: %w", dir, err)
	}
	if err := checkKey(abs, s.key); err != nil {
		return nil, fmt.Errorf("open store %q: %w", dir, err)
	}
	if err := checkBlobDir(abs); err != nil {
		return nil, fmt.Errorf("open store %q: %w", dir, err)
	}
	made := isMade(abs)
	inv, err := readInventory(abs)
	if err != nil {
		return nil, fmt.Errorf("open store %q: %w", dir, err)
	}
	s.uncollected.Store(inv == nil || !inv.Clean)
	if _, err = openKeyring(abs, s.key, made); err != nil { // before Open changes anything
		return nil, fmt.Errorf("open store %q: %w", dir, err)
	}
	if err := prepareFiles(abs, opts, s.engine.logger); err != nil {
		return nil, fmt.Errorf("open store %q: %w", dir, err)
	}
	if err := removeUnmade(abs); err != nil {
		return nil, fmt.Errorf("open store %q: %w", dir, err)
	}
	if s.engine.db, err = badger.Open(s.badgerOptions()); err != nil {
		return nil, fmt.Errorf("open store %q: %w", dir, openError(abs, err))
	}
	if err := s.prepareKeys(made); err != nil {
		return nil, fmt.Errorf("open store %q: %w", dir, errors.Join(err, s.closeFiles()))
	}
	if err := s.prepareBlobs(); err != nil {
		return nil, fmt.Errorf("open store %q: %w", dir, errors.Join(err, s.closeFiles()))
	}
	if err := s.startInventory(); err != nil {
		return nil, fmt.Errorf("open store %q: %w", dir, errors.Join(err, s.closeFiles()))
	}
	s.interval = opts.PurgeInterval
	if s.interval == 0 {
		s.interval = DefaultPurgeInterval
	}
	s.startPurges()
	return s, nil
}

func (s *Store) badgerOptions() badger.Options {
	l := newLogger(s.engine.logger)
	l.info = func(format string) {
		if p := s.merger.pacer.Load(); p != nil {
			p.next(format)
		}
	}
	l.debug = s.engine.waitForTable
	return badgerOptions(s.engine.dir, s.engine.logger).WithLogger(l).WithEncryptionKey(s.key)
}

// startPurges starts the scheduled purges, which run until stopPurges.
func (s *Store) startPurges() {
	s.closing.Lock()
	s.closing.ch = make(chan struct{})
	s.closing.Unlock()
	if s.interval < 0 {
		return
	}
	ctx, cancel := s.closing.until(context.Background())
	s.purges.Go(func() {
		defer cancel()
		s.keepPurged(ctx, s.interval)
	})
}

// stopPurges ends purges and erasures; the next call of each resumes the work.
func (s *Store) stopPurges() {
	s.closing.Lock()
	select {
	case <-s.closing.ch:
	default:
		close(s.closing.ch)
	}
	s.closing.Unlock()
	s.purges.Wait()
}

// prepareKeys reads the key file, writes one for a store that has none, and then
// records in the store's format that it has one. No other process has the store open.
func (s *Store) prepareKeys(made bool) (err error) {
	if s.keys, err = openKeyring(s.engine.dir, s.key, made); err != nil {
		return err
	}
	if err := s.keys.removeTemps(); err != nil || !s.keys.seals() {
		return err
	}
	format, err := readFormat(s.engine.dir)
	if err != nil {
		return err
	}
	if s.keys.wraps > 1 { // a process was killed during Rekey
		return s.keys.saveAll(true)
	}
	if isSealedFormat(format) {
		return nil
	}
	if err := s.keys.saveAll(false); err != nil {
		return err
	}
	if format == plainBlobFormat {
		return fileError(writeFormat(filepath.Join(s.engine.dir, formatFile), sealedBlobFormat))
	}
	return fileError(writeFormat(filepath.Join(s.engine.dir, formatFile), sealedFormat))
}

// startInventory writes the inventory of the store as Badger has opened it, and updates
// it until stopInventory.
func (s *Store) startInventory() error {
	last, _ := markOf(s.engine.dir, badger.ManifestFilename)
	if err := writeInventory(s.engine.dir, open); err != nil {
		return err
	}
	stop := make(chan struct{})
	var kept sync.WaitGroup
	kept.Go(func() { s.engine.keepInventory(stop, last) })
	s.stopInventory = func() {
		close(stop)
		kept.Wait()
	}
	return nil
}

func badgerOptions(dir string, logger *slog.Logger) badger.Options {
	return badger.DefaultOptions(dir).
		WithSyncWrites(true).
		WithMemTableSize(memTableSize).
		WithNumMemtables(numMemTables).
		WithNumLevelZeroTables(level0Tables).
		WithNumLevelZeroTablesStall(level0TablesStall).
		WithBlockCacheSize(blockCacheSize).
		WithIndexCacheSize(indexCacheSize).
		WithValueLogFileSize(valueLogFileSize).
		WithValueThreshold(valueThreshold).
		WithNumVersionsToKeep(keptVersions).
		WithCompression(options.Snappy).
		WithChecksumVerificationMode(options.OnBlockRead).
		WithDetectConflicts(false).
		WithMetricsEnabled(false).
		WithLogger(newLogger(logger))
}

// enter begins a call, which the caller ends with s.mu.RUnlock if enter
// returned nil.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.RLock()
	if s.closed {
		s.mu.RUnlock()
		return kv.ErrClosed
	}
	return nil
}

// Get implements [kv.Driver].
func (s *Store) Get(ctx context.Context, partition string, key kv.Key) (kv.Entry, error) {
	if err := kv.ValidateKey(partition, key); err != nil {
		return kv.Entry{}, fmt.Errorf("get: %w", err)
	}
	if err := s.enter(ctx); err != nil {
		return kv.Entry{}, fmt.Errorf("get %s: %w", key, err)
	}
	defer s.mu.RUnlock()
	e, err := again(func() (kv.Entry, error) { return s.read(partition, key) })
	if err != nil {
		return kv.Entry{}, fmt.Errorf("get %s: %w", key, err)
	}
	return e, nil
}

func (s *Store) read(partition string, key kv.Key) (kv.Entry, error) {
	if s.keys.isErasing(partition) {
		return kv.Entry{}, kv.ErrNotFound
	}
	at := engineKey(partition, key)
	if e, ok := s.heads.get(at); ok {
		e.Value = bytes.Clone(e.Value)
		return e, nil
	}
	txn := s.engine.db.NewTransaction(false)
	defer txn.Discard()
	return s.get(txn, at, key)
}

func (s *Store) get(txn *badger.Txn, engineKey []byte, key kv.Key) (kv.Entry, error) {
	item, err := txn.Get(engineKey)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return kv.Entry{}, kv.ErrNotFound
	}
	if err != nil {
		return kv.Entry{}, readError(err)
	}
	return s.entry(key, item)
}

// entry returns an item as callers see it, or errEntryGone.
func (s *Store) entry(key kv.Key, item *badger.Item) (kv.Entry, error) {
	value, err := s.valueOf(item)
	if (errors.Is(err, errBlobMissing) || errors.Is(err, errNoDataKey)) && !s.collector.isCurrent(item.Key(), item.Version()) {
		err = errEntryGone
	}
	if err != nil {
		return kv.Entry{}, err
	}
	return kv.Entry{Key: key, Value: value, Revision: item.Version()}, nil
}

func (s *Store) valueOf(item *badger.Item) ([]byte, error) {
	value, err := item.ValueCopy(nil)
	if err != nil {
		return nil, readError(err)
	}
	if value, err = s.keys.value(item.Key(), item.Version(), item.UserMeta(), value); err != nil {
		return nil, err
	}
	if item.UserMeta()&blobMeta != 0 {
		return s.blobs.read(partitionIn(item.Key()), value)
	}
	return value, nil
}

// errEntryGone is the error of an entry that was replaced, deleted or erased while it was
// read, and of which a collection or an erasure has removed the large value or the data key.
var errEntryGone = fmt.Errorf("%w: entries are replaced as fast as they are read; try again", kv.ErrUnavailable)

// maxReads is how often a call reads while each time another commit or erasure removes what
// it reads.
const maxReads = 100

// again repeats read while it meets an entry that is gone.
func again[T any](read func() (T, error)) (v T, err error) {
	for range maxReads {
		if v, err = read(); !errors.Is(err, errEntryGone) {
			break
		}
	}
	return v, err
}

// Scan implements [kv.Driver].
func (s *Store) Scan(ctx context.Context, partition string, r kv.Range) (kv.Page, error) {
	if err := r.Validate(partition); err != nil {
		return kv.Page{}, fmt.Errorf("scan: %w", err)
	}
	if err := s.enter(ctx); err != nil {
		return kv.Page{}, fmt.Errorf("scan %s: %w", r.Prefix, err)
	}
	defer s.mu.RUnlock()
	page, err := again(func() (kv.Page, error) {
		if s.keys.isErasing(partition) {
			return kv.Page{}, nil
		}
		txn := s.engine.db.NewTransaction(false)
		defer txn.Discard()
		return s.scan(ctx, txn, partition, r)
	})
	if err != nil {
		return kv.Page{}, fmt.Errorf("scan %s: %w", r.Prefix, err)
	}
	return page, nil
}

func (s *Store) scan(ctx context.Context, txn *badger.Txn, partition string, r kv.Range) (kv.Page, error) {
	b := kv.NewPageBuilder(r)
	base := engineKey(partition, "")
	low, high := r.Bounds()
	it := txn.NewIterator(badger.IteratorOptions{
		Reverse: r.Reverse,
		Prefix:  base, // not r.Prefix, or seek could not step back over high
	})
	defer it.Close()
	for seek(it, base, low, high, r.Reverse); it.Valid(); it.Next() {
		if err := ctx.Err(); err != nil {
			return kv.Page{}, err
		}
		key := kv.Key(it.Item().Key()[len(base):])
		if key < low || (high != "" && key >= high) || !b.Room() {
			break
		}
		if key == "" { // an erasure that has begun since wrote it: see dropPrefix
			continue
		}
		e, err := s.entry(key, it.Item())
		if errors.Is(err, kv.ErrCorrupt) {
			err = &kv.EntryError{Key: key, Err: err}
		}
		if err != nil {
			return kv.Page{}, err
		}
		b.Add(e)
	}
	return b.Page(), nil
}

// seek moves it to the first entry in order of low <= key < high.
func seek(it *badger.Iterator, base []byte, low, high kv.Key, reverse bool) {
	if !reverse {
		it.Seek(append(base[:len(base):len(base)], low...))
		return
	}
	end := append(base[:len(base):len(base)], high...)
	if high == "" {
		end = append(end, lastKey...)
	}
	it.Seek(end)
	if high != "" && it.Valid() && string(it.Item().Key()) == string(end) {
		it.Next() // high itself is not in range
	}
}

// Verify reads every table of the store and compares checksums, and every large value
// in [BlobDir]. It returns [kv.ErrCorrupt] if one differs. Badger skips a damaged block
// when it looks for keys, which makes the block's keys seem absent; only Verify reports
// them. It may be called while the store is in use, and takes as long as reading all of
// the store's files.
func (s *Store) Verify() error {
	if err := s.enter(context.Background()); err != nil {
		return fmt.Errorf("verify store: %w", err)
	}
	defer s.mu.RUnlock()
	if err := verify(s.engine.db); err != nil {
		return fmt.Errorf("verify store: %w: %v; restore it from a backup", kv.ErrCorrupt, err)
	}
	if err := s.collector.verifyBlobs(context.Background()); err != nil {
		return fmt.Errorf("verify store: %w", err)
	}
	return nil
}

// verify returns a panic of Badger 4.9.6 as an error: Badger finds a damaged block and
// then reads the block's name through a nil pointer.
func verify(db *badger.DB) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("a block of a table cannot be read")
		}
	}()
	return db.VerifyChecksum()
}

// Close implements [kv.Driver]. If the device has no room for the table that Badger
// writes last, Close returns [kv.ErrNoSpace] and the store stays open: free some space
// and call Close again, or end the process, which loses nothing.
func (s *Store) Close() error {
	s.stopPurges()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	if err := checkFree(s.engine.dir, closeFree); err != nil {
		s.startPurges()
		return fmt.Errorf("close store %q: %w, and close it again; nothing is lost if the process ends instead", filepath.Base(s.engine.dir), err)
	}
	s.closed = true
	s.stopInventory()
	if err := s.closeFiles(); err != nil {
		return fmt.Errorf("close store %q: %w", filepath.Base(s.engine.dir), err)
	}
	if err := writeClosedInventory(s.engine.dir); err != nil {
		s.engine.logger.Warn("write the inventory of the closed store; the next start reads all of its tables", "error", err)
	}
	return nil
}

// closeFiles records in the inventory that Badger is closing, when Badger makes a table
// of its logs and removes them, and then has Badger close its files.
func (s *Store) closeFiles() error {
	if err := writeInventory(s.engine.dir, closing); err != nil {
		// Without an inventory the next start reads all tables; with the inventory of
		// an open store, it would report the logs that Badger removes now as missing.
		s.engine.logger.Warn("write the inventory of the store that closes", "error", err)
		_ = os.Remove(filepath.Join(s.engine.dir, inventoryFile))
	}
	return s.engine.db.Close()
}
