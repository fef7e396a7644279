package threads

import (
	"context"
	"encoding/binary"
	"encoding/json"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
)

// formatPieces is the first byte of a step that lies in pieces: behind it is
// their number. A step is there when that is: the pieces are written ahead.
const formatPieces = 0x02

// runWriter puts a commit to a run together.
type runWriter struct {
	part  partition
	run   string
	tx    kv.Tx
	later []kv.Key // to be removed behind the commit
	room  int      // bytes of steps that fit into tx

	inPieces bool // a step has entries of its own beside that in tx
}

func (j journal) writer(run string) *runWriter {
	return &runWriter{part: j.part, run: run, room: maxInlineBytes}
}

// requireOwner makes the commit one of the run's owner.
func (w *runWriter) requireOwner(ref host.RunRef) {
	w.tx.Conds = append(w.tx.Conds, kv.Fence(leaseKey(ref.Run), lease(ref.Fence)))
}

func (w *runWriter) put(key kv.Key, value []byte) {
	w.tx.Writes = append(w.tx.Writes, kv.Put(key, value))
}
func (w *runWriter) delete(key kv.Key) { w.tx.Writes = append(w.tx.Writes, kv.Delete(key)) }

func (w *runWriter) putRecord(r *runRecord) error {
	raw, err := encode(r)
	if err == nil {
		w.put(runKey(r.Run), raw)
	}
	return err
}

// deleteAll removes all entries below a key. Those that one commit should not
// carry are removed after it.
func (w *runWriter) deleteAll(ctx context.Context, prefix kv.Key) error {
	page, err := w.part.Scan(ctx, kv.Range{Prefix: prefix, Limit: deletePage})
	if err != nil {
		return wrapRun(err, "read run", w.run)
	}
	for _, e := range page.Entries {
		w.delete(e.Key)
	}
	if page.More {
		w.later = append(w.later, prefix)
	}
	return nil
}

// forget removes a run but for its steps.
func (w *runWriter) forget(run string) {
	for _, key := range []kv.Key{runKey(run), leaseKey(run), openRunKey(run)} {
		w.delete(key)
	}
}

// steps adds steps behind the first at ones.
func (w *runWriter) steps(ctx context.Context, at int, steps []json.RawMessage) error {
	for i, step := range steps {
		if err := w.step(ctx, stepKeys(w.run).WithUint(uint64(at+i)), step); err != nil {
			return err
		}
	}
	return nil
}

// left adds the rest of a run that ends with questions.
func (w *runWriter) left(ctx context.Context, steps []json.RawMessage) error {
	for i, step := range steps {
		if err := w.step(ctx, leftKeys(w.run).WithUint(uint64(i)), step); err != nil {
			return err
		}
	}
	return nil
}

// step adds one step, or an entry that refers to its pieces.
func (w *runWriter) step(ctx context.Context, key kv.Key, step json.RawMessage) error {
	if !json.Valid(step) {
		return host.Errorf(host.InvalidArgument, "a step of run %q is not JSON", w.run)
	}
	if len(step) <= ChunkBytes && len(step) <= w.room {
		w.room -= len(step)
		w.put(key, append([]byte{formatJSON}, step...))
		return nil
	}
	w.inPieces = true
	pieces := 0
	for rest := []byte(step); len(rest) > 0; pieces++ {
		n := min(len(rest), ChunkBytes)
		ahead := kv.Tx{Conds: w.fences(), Writes: []kv.Write{kv.Put(key.WithUint(uint64(pieces)), rest[:n])}}
		if _, err := w.part.Apply(ctx, ahead); err != nil {
			return wrapRun(err, "write steps of run", w.run)
		}
		rest = rest[n:]
	}
	w.put(key, binary.BigEndian.AppendUint32([]byte{formatPieces}, uint32(pieces)))
	return nil
}

// fences returns the conditions that name the owner of the commit.
func (w *runWriter) fences() []kv.Cond {
	var out []kv.Cond
	for _, c := range w.tx.Conds {
		if c.Kind == kv.CondFence {
			out = append(out, c)
		}
	}
	return out
}

// commit makes the commit. It returns kv.ErrPrecondition unchanged, for the
// caller to translate.
func (w *runWriter) commit(ctx context.Context, doing string) error {
	_, err := w.part.Apply(ctx, w.tx)
	if err == nil {
		for _, prefix := range w.later {
			_ = w.part.Remove(ctx, prefix) // no reader looks there any more; leftovers only take space
		}
	}
	return wrapRun(err, doing, w.run)
}

func wrapRun(err error, doing, run string) error { return keepPrecondition(err, doing+" %q", run) }

// readSteps reads the steps below a key.
func (j journal) readSteps(ctx context.Context, prefix kv.Key, run string) ([]json.RawMessage, error) {
	var out []json.RawMessage
	pieces := map[kv.Key][]byte{} // until the step that has them
	for e, err := range j.part.All(ctx, kv.Range{Prefix: prefix}) {
		if err != nil {
			return nil, wrap(err, "read run %q", run)
		}
		rest, _ := e.Key.CutPrefix(prefix)
		n, rest, ok := rest.CutUint()
		switch {
		case !ok || len(e.Value) == 0:
			return nil, damaged("a step of run %q is damaged", run)
		case len(rest) > 0:
			pieces[e.Key] = e.Value
			continue
		case n != uint64(len(out)):
			return nil, damaged("step %d of run %q is missing", len(out), run)
		}
		out = append(out, e.Value)
	}
	for i := range out {
		step, err := wholeStep(out[i], prefix.WithUint(uint64(i)), pieces)
		if err != nil {
			return nil, damaged("step %d of run %q is damaged", i, run)
		}
		out[i] = step
	}
	return out, nil
}

// wholeStep returns a step, put together from its entry and its pieces.
func wholeStep(value []byte, key kv.Key, pieces map[kv.Key][]byte) (json.RawMessage, error) {
	switch {
	case value[0] == formatJSON:
		return json.RawMessage(value[1:]), nil
	case value[0] != formatPieces || len(value) != 5:
		return nil, kv.ErrCorrupt
	}
	var out json.RawMessage
	for i := range binary.BigEndian.Uint32(value[1:]) {
		piece, ok := pieces[key.WithUint(uint64(i))]
		if !ok {
			return nil, kv.ErrCorrupt
		}
		out = append(out, piece...)
	}
	return out, nil
}
