package pgkv

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// A lane numbers the batches of one committer, one after another. The statement that
// commits a batch writes the number and the batch's outcome into the lane's row, unless
// the row has that number already. If a connection breaks before it answers, the store
// claims the number: either the row has the outcome, or the batch is not committed and
// never will be, also if the server gets the statement late.
type lane struct {
	id [16]byte
	n  int64
}

// lanes are the lanes that no commit uses. There are as many as commits were made at
// once.
type lanes struct {
	mu   sync.Mutex
	free []*lane
}

// take returns a lane with a new number.
func (l *lanes) take() *lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.free); n > 0 {
		taken := l.free[n-1]
		l.free = l.free[:n-1]
		return taken
	}
	taken := &lane{}
	_, _ = rand.Read(taken.id[:]) // never fails
	return taken
}

func (l *lanes) put(back *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free = append(l.free, back)
}

// The bounds of the sweep of lanes that processes have left.
const (
	// laneKeptFor is how long the row of a lane stays after its last commit: much longer
	// than a call may ask what became of that.
	laneKeptFor = 30 * 24 * time.Hour
	// maxSweptLanes bounds how many rows one Open removes: more than it will add.
	maxSweptLanes = 1000
)

const sweepLanesSQL = `
delete from {schema}.lanes l using (
	select o.id from {schema}.lanes o where o.at < now() - make_interval(secs => $1) limit $2 for update skip locked
) old where l.id = old.id`

// sweepLanes removes rows of lanes that processes have left. The store works without it.
func (s *Store) sweepLanes(ctx context.Context) {
	err := s.once(ctx, func(ctx context.Context) error {
		_, err := s.pool.Exec(ctx, s.sql.sweepLanes, laneKeptFor.Seconds(), maxSweptLanes)
		return err
	})
	if err != nil && ctx.Err() == nil {
		s.logger.WarnContext(ctx, "rows of lanes that ended processes had are not removed", "error", translate(err))
	}
}

// resolve finds out what became of the batch with the lane's number after its connection
// broke: its outcome, or nil if it is not committed and never will be. An error means
// that it could not be found out in time.
func (s *Store) resolve(l *lane) (outcome []int64, err error) {
	err = s.repeat(context.Background(), func(ctx context.Context) error {
		tag, err := s.pool.Exec(ctx, s.sql.claim, l.id[:], l.n)
		if err != nil || tag.RowsAffected() > 0 {
			outcome = nil
			return err
		}
		var n int64
		var flat pgtype.FlatArray[int64]
		if err := s.pool.QueryRow(ctx, s.sql.outcome, l.id[:]).Scan(&n, &flat); err != nil {
			return err
		}
		outcome = flat // nil if an earlier attempt has claimed the number
		return nil
	})
	return outcome, err
}
