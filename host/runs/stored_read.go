package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// Reading the stored events of durable runs.

// read returns the description of a run. Code not_found if the store has none.
func (s *eventStore) read(ctx context.Context, key runKey) (*logRecord, error) {
	e, err := s.driver.Get(ctx, key.tenant, logKeys.With(key.run))
	if errors.Is(err, kv.ErrNotFound) {
		return nil, errNoRun(key.run)
	}
	rec := &logRecord{}
	if err == nil {
		err = kv.DecodeRecord(e.Value, rec)
	}
	return rec, kverror.Wrap(err, "read the events of run %q", key.run)
}

// showsGivenUp reports whether the store has the end of a run that the journal has as open: a
// host has given it up. The description of such a run has the time of its record, so that it
// is none of an earlier run of that id.
func (s *eventStore) showsGivenUp(ctx context.Context, of *host.RunRecord) (bool, error) {
	if s == nil {
		return false, nil
	}
	partition, err := host.TenantPartition(of.Tenant)
	if err != nil {
		return false, err
	}
	rec, err := s.read(ctx, runKey{partition, of.Run})
	if err != nil {
		return false, err
	}
	return rec.Run.Status.Ended() && rec.Run.Started.Equal(of.Created), nil
}

// get returns a run that no host has in memory any more: one that has ended. missing is the
// error for one that the store does not have. Code unavailable for a run whose host is gone
// and that another one has to take over.
func (s *eventStore) get(ctx context.Context, tenant, run string, missing error) (*Run, error) {
	rec, err := s.find(ctx, tenant, run, missing)
	if err != nil {
		return nil, err
	}
	return &rec.Run, nil
}

func (s *eventStore) find(ctx context.Context, tenant, run string, missing error) (*logRecord, error) {
	if s == nil || host.CodeOf(missing) != host.NotFound {
		return nil, missing
	}
	partition, err := host.TenantPartition(tenant)
	if err != nil {
		return nil, missing
	}
	rec, err := s.read(ctx, runKey{partition, run})
	switch {
	case err == nil && rec.Run.Status.Ended():
		return rec, nil
	case err != nil && host.CodeOf(err) != host.NotFound:
		return nil, err
	}
	// The journal has a run before its events are stored.
	switch open, err := s.journal.ReadRun(ctx, tenant, run); {
	case err == nil && open.Status == host.RunOpen:
		return nil, errBetweenHosts(run)
	case err != nil && host.CodeOf(err) != host.NotFound:
		return nil, err
	}
	return nil, missing
}

func errBetweenHosts(run string) error {
	e := host.Errorf(host.Unavailable, "the host of run %.100q is gone", run).WithHint("ask again: another host takes the run over")
	e.Retryable = true
	return e
}

// ended yields the events of a run that no host has in memory any more.
func (s *eventStore) ended(ctx context.Context, tenant, run string, from int64, missing error) iter.Seq2[host.Event, error] {
	return func(yield func(host.Event, error) bool) {
		rec, err := s.find(ctx, tenant, run, missing)
		if err != nil {
			yield(host.Event{}, err)
			return
		}
		info := &rec.Run
		partition, _ := host.TenantPartition(tenant)
		if from > info.Events && rec.Taken > 0 {
			from = rec.Taken
		}
		next := from
		for ev, err := range s.events(ctx, runKey{partition, run}, from) {
			if err != nil || !yield(ev, err) {
				if err != nil {
					yield(ev, err)
				}
				return
			}
			next = ev.Seq + 1
		}
		switch err := info.failure(); {
		case next < info.Events && from < info.Events:
			yield(host.Event{}, errNotStored(run, next))
		case err != nil:
			yield(host.Event{}, err)
		}
	}
}

func errNotStored(run string, number int64) error {
	return host.Errorf(host.ResourceExhausted, "event %d of run %.100q is not kept: a run has at most %d events of %d bytes in the store, each of at most %d",
		number, run, MaxStoredEvents, MaxStoredBytes, MaxStoredEvent).WithHint("read from a later number, or read the run's thread")
}

// events yields the stored events of a run from a number on, without a gap.
func (s *eventStore) events(ctx context.Context, key runKey, from int64) iter.Seq2[host.Event, error] {
	return func(yield func(host.Event, error) bool) {
		prefix := eventKeys.With(key.run)
		where := kv.Range{Prefix: prefix, From: s.rowOf(ctx, key, from), Limit: 16}
		next := from
		for e, err := range kv.All(ctx, s.driver, key.tenant, where) {
			if err != nil {
				yield(host.Event{}, kverror.Wrap(err, "read the events of run %q", key.run))
				return
			}
			for line := range bytes.Lines(e.Value) {
				var ev host.Event
				if err := json.Unmarshal(line, &ev); err != nil {
					yield(host.Event{}, host.Errorf(host.DataLoss, "read the events of run %.100q: %w", key.run, err))
					return
				}
				if ev.Seq < next {
					continue
				}
				if ev.Seq > next {
					yield(host.Event{}, errNotStored(key.run, next))
					return
				}
				if next++; !yield(ev, nil) {
					return
				}
			}
		}
	}
}

// rowOf returns the key of the entry that has an event, or "" for the first one.
func (s *eventStore) rowOf(ctx context.Context, key runKey, number int64) kv.Key {
	prefix := eventKeys.With(key.run)
	page, err := s.driver.Scan(ctx, key.tenant, kv.Range{Prefix: prefix, From: prefix.WithUint(uint64(max(number, 0))), Reverse: true, Limit: 1})
	if err != nil || len(page.Entries) == 0 {
		return ""
	}
	return page.Entries[0].Key
}

// read yields the events of a live run that its memory has no longer: those in the store,
// and then those that waited to be stored before it looked there. A commit in between makes
// no gap.
func (l *runLog) read(ctx context.Context, from int64) iter.Seq[host.Event] {
	return func(yield func(host.Event) bool) {
		waiting, next := l.waiting(), from
		for ev, err := range l.store.events(ctx, l.key, from) {
			if err != nil {
				break // a gap, or a store that does not answer: the caller says so
			}
			if !yield(ev) {
				return
			}
			next = ev.Seq + 1
		}
		for _, line := range waiting {
			var ev host.Event
			if json.Unmarshal(line, &ev) != nil || ev.Seq > next {
				return
			}
			if ev.Seq == next {
				if !yield(ev) {
					return
				}
				next++
			}
		}
	}
}

// waiting returns the pending events.
func (l *runLog) waiting() (lines [][]byte) {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	for _, r := range l.pending {
		for line := range bytes.Lines(r.lines) {
			lines = append(lines, line)
		}
	}
	return lines
}
