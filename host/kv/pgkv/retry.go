package pgkv

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/agenthost/agenthost/host/kv"
)

// The pauses between the attempts of a call double from shortestPause to longestPause.
const (
	shortestPause = 5 * time.Millisecond
	longestPause  = time.Second
)

// leastAttempt is the time that a connection may take to be made, however short the
// patience is.
const leastAttempt = time.Second

// attempts spaces the attempts of one call.
type attempts struct {
	until time.Time
	pause time.Duration
}

func (s *Store) attempts() *attempts {
	return &attempts{until: time.Now().Add(s.patience), pause: shortestPause}
}

// again waits and reports whether there is time for another attempt.
func (a *attempts) again(ctx context.Context) bool {
	if time.Now().Add(a.pause).After(a.until) {
		return false
	}
	wait := time.NewTimer(a.pause/2 + rand.N(a.pause))
	defer wait.Stop()
	a.pause = min(2*a.pause, longestPause)
	select {
	case <-wait.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// over reports whether there is no time for another attempt.
func (a *attempts) over(ctx context.Context) bool {
	return ctx.Err() != nil || time.Now().After(a.until)
}

// errOvertaken is the error of an attempt between whose statements another store has
// erased the partition.
var errOvertaken = errors.New("the partition was erased meanwhile")

// repeat calls fn, and again while the database cannot be reached or others are in the
// way. Repeating what fn does has no other effect than doing it once.
func (s *Store) repeat(ctx context.Context, fn func(context.Context) error) error {
	tries := s.attempts()
	for {
		err := s.once(ctx, fn)
		if err == nil || errors.Is(err, pgx.ErrNoRows) || errors.Is(err, errKeyGone) || isOwn(err) {
			return err
		}
		again := !refusedError(err) && (!answeredError(err) || inTheWay(err)) && tries.again(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !again {
			return unanswered(translate(err))
		}
	}
}

// reach waits until the database answers, for the patience. One attempt may take as long,
// and at least leastAttempt.
func (s *Store) reach(ctx context.Context, patience time.Duration) error {
	begun := time.Now()
	limit, cancel := context.WithTimeout(ctx, max(patience, leastAttempt))
	defer cancel()
	tries := &attempts{until: begun.Add(patience), pause: shortestPause}
	for n := 1; ; n++ {
		err := s.pool.Ping(limit)
		if err == nil {
			return nil
		}
		again := !refusedError(err) && (!answeredError(err) || inTheWay(err)) && tries.again(limit)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case again:
			continue
		case n == 1 && limit.Err() == nil:
			return unanswered(translate(err))
		}
		took := max(time.Since(begun).Round(100*time.Millisecond), 100*time.Millisecond)
		return fmt.Errorf("%d attempts to connect in %s: %w", n, took, unanswered(translate(err)))
	}
}

// once calls fn with the time that one attempt may take.
func (s *Store) once(ctx context.Context, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return fn(ctx)
}

// unanswered returns ErrUnavailable for the end of an attempt's time, which is not the
// end of the caller's context.
func unanswered(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errNoAnswer
	}
	return err
}

var errNoAnswer = errorf(kv.ErrUnavailable, "the database did not answer in time")
