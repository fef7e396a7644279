package threads

import (
	"context"
	"iter"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
)

// The questions of interrupted runs, in the list of open runs.

// asksValue encodes a run's questions for its entry in the list of open runs: nothing
// where no question has a key or a time.
func asksValue(asks []host.AskedQuestion) ([]byte, error) {
	if !slices.ContainsFunc(asks, func(a host.AskedQuestion) bool { return a.Key != "" || a.Expires != nil }) {
		return nil, nil
	}
	return encode(&askedRecord{version: version{V: layout}, Asks: asks})
}

// askedRecord holds the questions of a run that waits for answers.
type askedRecord struct {
	version
	Asks []host.AskedQuestion `json:"asks"`
	Host string               `json:"host,omitempty"` // of a run that is open
}

// asksOf decodes the questions that asksValue has encoded.
func asksOf(value []byte, run string) ([]host.AskedQuestion, error) {
	if len(value) == 0 {
		return nil, nil
	}
	var asked askedRecord
	err := decode(value, &asked, "questions of run", run)
	return asked.Asks, err
}

// WaitingRuns implements [host.QuestionKeeper]. It reads a short entry for each run
// that waits, and the records of those that filter takes.
func (s *Store) WaitingRuns(ctx context.Context, tenant string, filter host.WaitingFilter) ([]*host.RunRecord, error) {
	part, err := partitionOf(s.driver, tenant)
	if err != nil {
		return nil, err
	}
	var out []*host.RunRecord
	for run, err := range (journal{part, s}).list(ctx, filter.After, filter.Takes) {
		if err != nil {
			return nil, err
		}
		if run.rec.Status != host.RunInterrupted {
			continue // it was answered meanwhile, or is at work
		}
		if out = append(out, run.public(tenant)); len(out) == host.MaxWaitingRuns {
			break
		}
	}
	return out, nil
}

// listed is a run of the list of open runs, with the questions that it asks there.
type listed struct {
	journaled
	asks []host.AskedQuestion
}

func (l *listed) public(tenant string) *host.RunRecord {
	out := l.rec.public(tenant)
	out.Asks = l.asks
	return out
}

// list yields the open runs behind the id after whose questions takes wants, the first
// begun first. A run that ends meanwhile is left out.
func (j journal) list(ctx context.Context, after string, takes func([]host.AskedQuestion) bool) iter.Seq2[*listed, error] {
	where := kv.Range{Prefix: openRunKeys}
	if after != "" {
		where.After = openRunKey(after)
	}
	return func(yield func(*listed, error) bool) {
		for e, err := range j.part.All(ctx, where) {
			if err != nil {
				yield(nil, wrap(err, "list runs"))
				return
			}
			rest, _ := e.Key.CutPrefix(openRunKeys)
			run, _, ok := rest.CutString()
			if !ok || run <= after {
				continue
			}
			asks, err := asksOf(e.Value, run)
			if err != nil {
				yield(nil, err)
				return
			}
			if !takes(asks) {
				continue
			}
			r, err := j.find(ctx, run)
			if host.CodeOf(err) == host.NotFound {
				continue
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(&listed{*r, asks}, nil) {
				return
			}
		}
	}
}
