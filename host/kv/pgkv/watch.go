package pgkv

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/agenthost/agenthost/host/kv"
)

// The numbers of the wake-ups.
const (
	// DefaultPollInterval is how often a store that watches asks for commits of other
	// processes.
	DefaultPollInterval = 500 * time.Millisecond
	// announceRest is the pause between two announcements of a store's commits.
	announceRest = 5 * time.Millisecond
	// announceNames bounds the partitions in one announcement, whose payload the server
	// bounds to 8,000 bytes.
	announceNames = 150
	// maxUnannounced bounds the partitions that wait for an announcement. Those of
	// others are found by polling.
	maxUnannounced = 4096
	// reconnectRest is the pause before a broken connection that listens is made again.
	reconnectRest = time.Second
)

// watcher wakes the watches of a store: after its own commits directly; after those of
// other processes by their notifications, and by polling the revisions of the watched
// partitions. Its goroutines begin with the first watch.
type watcher struct {
	store    *Store
	interval time.Duration
	channel  string // of LISTEN and NOTIFY
	connect  func(context.Context) (*pgx.Conn, error)

	stop    context.CancelFunc // nil before the first watch
	running sync.WaitGroup
	wake    chan struct{} // an announcement waits
	look    chan struct{} // a partition is newly watched

	mu          sync.Mutex
	watched     map[string]*watched
	byID        map[int64]string // names of watched partitions that exist
	unannounced map[string]struct{}
	listening   bool
}

// watched is a partition with watches.
type watched struct {
	revision uint64 // the latest that the watches were woken for
	watches  map[chan struct{}]struct{}
}

func newWatcher(s *Store, config *pgx.ConnConfig, interval time.Duration) *watcher {
	if interval <= 0 {
		interval = DefaultPollInterval
	}
	sum := sha256.Sum256([]byte(s.schema))
	config = config.Copy()
	return &watcher{
		store: s, interval: interval, channel: "agenthost_kv_" + hex.EncodeToString(sum[:8]),
		connect: func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, config) },
		wake:    make(chan struct{}, 1), look: make(chan struct{}, 1), watched: map[string]*watched{}, byID: map[int64]string{},
		unannounced: map[string]struct{}{},
	}
}

var _ kv.Notifier = (*Store)(nil)

// Watch implements [kv.Notifier]. A store that has watched announces its own commits to
// the stores of other processes.
func (s *Store) Watch(partition string) (changed <-chan struct{}, stop func(), err error) {
	if err := kv.ValidateKey(partition, "k"); err != nil {
		return nil, nil, fmt.Errorf("watch: %w", err)
	}
	if err := s.enter(context.Background()); err != nil {
		return nil, nil, fmt.Errorf("watch: %w", err)
	}
	defer s.mu.RUnlock()
	w := s.watcher
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.start()
	of := w.watched[partition]
	if of == nil {
		of = &watched{watches: map[chan struct{}]struct{}{}}
		w.watched[partition] = of
		select {
		case w.look <- struct{}{}:
		default:
		}
	}
	of.watches[c] = struct{}{}
	return c, func() { w.remove(partition, c) }, nil
}

// start starts the goroutines. The lock is held.
func (w *watcher) start() {
	if w.stop != nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	w.running.Go(func() { w.poll(ctx) })
	w.running.Go(func() { w.listen(ctx) })
	w.running.Go(func() { w.announce(ctx) })
}

// close ends the goroutines. No call is being made.
func (w *watcher) close() {
	if w.stop != nil {
		w.stop()
		w.running.Wait()
	}
}

func (w *watcher) remove(partition string, c chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.watched[partition]
	if of == nil {
		return
	}
	delete(of.watches, c)
	if len(of.watches) > 0 {
		return
	}
	delete(w.watched, partition)
	maps.DeleteFunc(w.byID, func(_ int64, name string) bool { return name == partition })
}

// committed wakes the watches of a partition that this store has written to, and has it
// announced to others unless all of its Txs were quiet.
func (w *watcher) committed(partition string, revision uint64, announced bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop == nil {
		return
	}
	w.changed(partition, revision)
	if !announced {
		return
	}
	if len(w.unannounced) < maxUnannounced {
		w.unannounced[partition] = struct{}{}
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// changed wakes the watches of a partition unless they were woken for a revision. The
// lock is held.
func (w *watcher) changed(partition string, revision uint64) {
	of := w.watched[partition]
	if of == nil || revision == of.revision {
		return
	}
	of.revision = revision
	for c := range of.watches {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

const pollSQL = `select p.id, p.name, p.revision from {schema}.partitions p where p.name = any($1::bytea[])`

// poll asks for the revisions of the watched partitions.
func (w *watcher) poll(ctx context.Context) {
	ticker := time.NewTicker(w.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-w.look: // notifications have the partition's number, which is not known yet
		}
		if err := w.pollOnce(ctx); err != nil && ctx.Err() == nil {
			w.store.logger.DebugContext(ctx, "ask for commits of other processes", "error", translate(err))
		}
	}
}

func (w *watcher) pollOnce(ctx context.Context) error {
	w.mu.Lock()
	var names [][]byte
	for name := range w.watched {
		names = append(names, []byte(name))
	}
	w.mu.Unlock()
	if len(names) == 0 {
		return nil
	}
	return w.store.once(ctx, func(ctx context.Context) error {
		rows, err := w.store.pool.Query(ctx, w.store.sql.poll, names)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id int64
			var name []byte
			var revision uint64
			if err := rows.Scan(&id, &name, &revision); err != nil {
				return err
			}
			w.polled(id, string(name), revision)
		}
		return rows.Err()
	})
}

func (w *watcher) polled(id int64, name string, revision uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watched[name] == nil {
		return
	}
	w.byID[id] = name
	w.changed(name, revision)
}

// listen receives notifications. Polling covers the time without a connection.
func (w *watcher) listen(ctx context.Context) {
	for {
		err := w.listenOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		w.store.logger.DebugContext(ctx, "listen for commits of other processes", "error", translate(err))
		select {
		case <-ctx.Done():
			return
		case <-time.After(reconnectRest):
		}
	}
}

func (w *watcher) listenOnce(ctx context.Context) error {
	conn, err := w.connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
		<-conn.PgConn().CleanupDone() // of a statement that ctx has ended: some seconds at most
	}()
	if _, err := conn.Exec(ctx, "listen "+pgx.Identifier{w.channel}.Sanitize()); err != nil {
		return err
	}
	w.setListening(true)
	defer w.setListening(false)
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		w.notified(n.Payload)
	}
}

func (w *watcher) setListening(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listening = on
}

// notified reads a payload, "id:revision" for each partition, separated by commas.
func (w *watcher) notified(payload string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for item := range strings.SplitSeq(payload, ",") {
		left, right, _ := strings.Cut(item, ":")
		id, err := strconv.ParseInt(left, 10, 64)
		if err != nil {
			continue
		}
		revision, err := strconv.ParseUint(right, 10, 64)
		if err != nil {
			continue
		}
		if name, ok := w.byID[id]; ok {
			w.changed(name, revision)
		}
	}
}

// notifySQL announces the revisions of partitions. An announcement that a crash loses is
// made up for by polling, so it waits for no disk.
const notifySQL = `
select set_config('synchronous_commit', 'off', true), pg_notify($1, string_agg(p.id || ':' || p.revision, ','))
from {schema}.partitions p where p.name = any($2::bytea[])`

// announce sends notifications of this store's commits, in a transaction of its own:
// NOTIFY makes the commits of transactions that have one wait for each other.
func (w *watcher) announce(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		}
		for names := range slices.Chunk(w.takeUnannounced(), announceNames) {
			err := w.store.once(ctx, func(ctx context.Context) error {
				_, err := w.store.pool.Exec(ctx, w.store.sql.notify, w.channel, names)
				return err
			})
			if err != nil && ctx.Err() == nil {
				w.store.logger.DebugContext(ctx, "announce commits to other processes", "error", translate(err))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(announceRest):
		}
	}
}

func (w *watcher) takeUnannounced() [][]byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := make([][]byte, 0, len(w.unannounced))
	for name := range w.unannounced {
		names = append(names, []byte(name))
	}
	clear(w.unannounced)
	return names
}
