package threads

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
)

// PruneHeadsOptions say which heads that a thread has left behind go: those that
// one of them names.
type PruneHeadsOptions struct {
	// Before is for heads that were left earlier; zero is none.
	Before time.Time
	// Keep is how many stay, those that were left last; 0 is all.
	Keep int
	// MaxBytes is how much the thread may have stored: while it has more, the head
	// that was left first goes; 0 is no bound.
	MaxBytes int64
	// Open has open branches go as well, which accept turns.
	Open bool
	// DryRun lists the heads that would go, and removes nothing. It ignores MaxBytes.
	DryRun bool
}

// PrunedHeads is the result of PruneHeads.
type PrunedHeads struct {
	Branches []*Branch `json:"branches"` // the first left first
	Kept     int       `json:"kept"`     // how many stayed
	// Bytes is how much less the thread has stored, keys and values.
	Bytes int64 `json:"bytes"`
}

// PruneHeads removes heads that a thread has left behind, by age, number or size, with
// the entries that they alone show: messages, turns with their snapshots, states and
// artifacts. The thread, the remaining heads, the snapshots of their turns and the
// forks of the thread stay whole. If the thread has forks or open branches, the heads
// go, and the entries that they show stay for as long as those forks and branches do.
// The thread's head stays the same. A run that went with a head is not known any more:
// a turn that is sent again under its id is a new one.
//
// PruneHeads waits for a turn that runs on the thread, as [Store.LockThread] does. If a
// call is interrupted, the next one completes it. Code not_found if there is no such
// thread, invalid_argument if no option selects heads, and for negative numbers,
// conflict if other processes change the thread all the time.
func (tn *Tenant) PruneHeads(ctx context.Context, id string, opts PruneHeadsOptions) (*PrunedHeads, error) {
	out := &PrunedHeads{Branches: []*Branch{}}
	if opts.Keep < 0 || opts.MaxBytes < 0 {
		return out, host.Errorf(host.InvalidArgument, "prune heads of thread %q: a bound is negative", id)
	}
	if opts.Keep == 0 && opts.MaxBytes == 0 && opts.Before.IsZero() {
		return out, host.Errorf(host.InvalidArgument, "prune heads of thread %q: nothing says which", id).WithHint("name an age, a number or a size")
	}
	unlock, err := tn.write.lock(ctx, id, host.RaceWait)
	if err != nil {
		return out, err
	}
	defer unlock()
	p := &headPruner{write: tn.write, id: id, opts: opts, out: out}
	return out, p.run(ctx)
}

// headPruner removes heads of one thread, while no turn runs on it.
type headPruner struct {
	write threadWriter
	id    string
	opts  PruneHeadsOptions
	out   *PrunedHeads
}

func (p *headPruner) run(ctx context.Context) error {
	t, err := p.write.read.find(ctx, p.id)
	if err != nil {
		return err
	}
	going, staying, err := p.prunable(ctx, t)
	if err != nil {
		return err
	}
	p.out.Kept = len(staying)
	if p.opts.DryRun {
		for _, h := range going {
			p.out.Branches = append(p.out.Branches, h.public(h.number))
		}
		return nil
	}
	before, err := p.write.read.part.storedBytes(ctx, p.id)
	if err != nil {
		return err
	}
	after := before
	drop := func(heads []*numberedHead) error {
		if err := p.drop(ctx, heads); err != nil {
			return err
		}
		for _, h := range heads {
			p.out.Branches = append(p.out.Branches, h.public(h.number))
		}
		after, err = p.write.read.part.storedBytes(ctx, p.id)
		p.out.Bytes = before - after
		return err
	}
	if err := drop(going); err != nil {
		return err
	}
	for p.opts.MaxBytes > 0 && after > p.opts.MaxBytes && len(staying) > 0 {
		first := staying[0]
		staying = staying[1:]
		if first.Own && !p.opts.Open {
			continue
		}
		if err := drop([]*numberedHead{first}); err != nil {
			return err
		}
		p.out.Kept--
	}
	return nil
}

// prunable returns the heads that go and those that stay, the first left first.
func (p *headPruner) prunable(ctx context.Context, t *Moment) (going, staying []*numberedHead, err error) {
	for h, err := range t.lineage().all(ctx) {
		if err != nil {
			return nil, nil, err
		}
		goes := h.Left.Before(p.opts.Before) || p.opts.Keep > 0 && len(staying) >= p.opts.Keep
		if goes && (p.opts.Open || !h.Own) {
			going = append(going, h)
		} else {
			staying = append(staying, h)
		}
	}
	slices.Reverse(going)
	slices.Reverse(staying)
	return going, staying, nil
}

// drop removes heads, and the entries that nothing shows after that.
func (p *headPruner) drop(ctx context.Context, heads []*numberedHead) error {
	for range maxAttempts {
		t, err := p.write.read.find(ctx, p.id)
		if err != nil {
			return err
		}
		err = p.unlink(ctx, t, heads)
		if err == nil {
			err = sweeper{t.part}.sweep(ctx)
		}
		if err == nil {
			err = sweeper{t.part}.collect(ctx, t)
		}
		if !errors.Is(err, kv.ErrPrecondition) {
			return wrap(err, "prune heads of thread %q", p.id)
		}
	}
	return host.Errorf(host.Conflict, "prune heads of thread %q: others changed it first, %d times", p.id, maxAttempts)
}

// unlink deletes the entries of heads, and marks for removal the contents in which
// no other head of the thread continues.
func (p *headPruner) unlink(ctx context.Context, t *Moment, heads []*numberedHead) error {
	if len(heads) == 0 {
		return nil
	}
	goes := map[uint64]bool{}
	for _, h := range heads {
		goes[h.number] = true
	}
	needed := map[string]bool{t.rec.Content: true, t.rec.root(): true}
	var staying []*numberedHead
	for h, err := range t.lineage().all(ctx) {
		if err != nil {
			return err
		}
		if !goes[h.number] {
			needed[h.Point.Content] = true
			staying = append(staying, h)
		}
	}
	writes, err := p.runsOfNone(ctx, t, staying, maps.Clone(needed))
	if err != nil {
		return err
	}
	for _, h := range heads {
		writes = append(writes, kv.Delete(t.root().head(h.number)))
		if c := h.Point.Content; !needed[c] {
			needed[c] = true // once
			mark, err := sweeper{t.part}.mark(ctx, c)
			if err != nil {
				return err
			}
			writes = append(writes, mark, kv.Delete(t.root().owned().With(c)))
		}
	}
	return sweeper{t.part}.removeFrom(ctx, t, writes)
}

// runsOfNone returns the writes that forget the runs of contents that are not needed, but for
// those whose turns the thread, or a head that stays, has inherited.
func (p *headPruner) runsOfNone(ctx context.Context, t *Moment, staying []*numberedHead, needed map[string]bool) (writes []kv.Write, err error) {
	var moments []*Moment // of the thread and of the heads, once one is needed
	for e, err := range t.part.All(ctx, kv.Range{Prefix: t.root().runs(), Limit: kv.MaxScanLimit}) {
		if err != nil {
			return nil, err
		}
		var elsewhere runElsewhere
		if len(e.Value) < 2 || e.Value[1] != '{' || kv.DecodeRecord(e.Value, &elsewhere) != nil || needed[elsewhere.Content] {
			continue
		}
		if moments == nil {
			if moments, err = p.moments(ctx, t, staying); err != nil {
				return nil, err
			}
		}
		rest, _ := e.Key.CutPrefix(t.root().runs())
		run, _, _ := rest.CutString()
		inherited, err := isInherited(ctx, moments, run, elsewhere.Content)
		if err != nil {
			return nil, err
		}
		if !inherited {
			writes = append(writes, kv.Delete(e.Key))
		}
	}
	return writes, nil
}

// moments returns the thread and heads of it.
func (*headPruner) moments(ctx context.Context, t *Moment, heads []*numberedHead) ([]*Moment, error) {
	moments := []*Moment{t}
	for _, h := range heads {
		m, err := t.moment(ctx, h.Point)
		if err != nil {
			return nil, err
		}
		moments = append(moments, m)
	}
	return moments, nil
}

// isInherited reports whether one of the moments shows the turn of a run that it has inherited
// from a content.
func isInherited(ctx context.Context, moments []*Moment, run, content string) (bool, error) {
	for _, m := range moments {
		in, _, found, err := m.turns().inheritedRun(ctx, run)
		if err != nil || found && in == content {
			return found, err
		}
	}
	return false, nil
}

// removeFrom commits writes in batches, and with each batch the unchanged record of the
// thread: a concurrent commit that was built on the record fails and is built again.
func (s sweeper) removeFrom(ctx context.Context, t *Moment, writes []kv.Write) error {
	return s.replaceIn(ctx, t, slices.Collect(slices.Chunk(writes, 1)))
}

// replaceIn is removeFrom of changes of several writes: the writes of each are in the same
// batch, so that no reader, and no call after a crash, finds half a change.
func (s sweeper) replaceIn(ctx context.Context, t *Moment, changes [][]kv.Write) error {
	raw, err := encode(t.rec)
	if err != nil {
		return err
	}
	key := threadKey(t.rec.ID)
	var writes []kv.Write
	size := 0
	for i, change := range changes {
		writes = append(writes, change...)
		size += (&kv.Tx{Writes: change}).Size()
		if len(writes) < deletePage && size < aheadBytes && i < len(changes)-1 {
			continue
		}
		tx := kv.Tx{Conds: []kv.Cond{kv.AtRevision(key, t.revision)}, Writes: append(writes, kv.Put(key, raw))}
		if t.revision, err = s.part.Apply(ctx, tx); err != nil {
			return err
		}
		writes, size = nil, 0
	}
	return nil
}
