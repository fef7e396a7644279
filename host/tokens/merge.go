package tokens

import (
	"context"
	"math"
	"math/bits"
	"unsafe"
)

const (
	// minWindow is the length of a window in bytes, at least. More makes
	// each join dearer, fewer has more bytes merged twice. It divides by all
	// the lengths of a character, so that in a run of any one character the
	// windows are alike.
	minWindow = 96

	// minOverlap is the initial number of tokens that are merged again with the
	// following text. A window is windowPerOverlap times as long as those
	// tokens, or more, so that little is merged twice where tokens are long.
	minOverlap       = 2
	windowPerOverlap = 4
)

// A merger writes a piece of text in tokens as byte-pair encoding does: join
// the neighbours whose union has the lowest rank, leftmost first, until no
// two may be joined. It does that window by window, which is possible for
// this reason:
//
// A list of tokens is the merge of its text exactly if each two neighbours in
// it are the merge of theirs. For were some join to cross a boundary, the
// first to do so would also happen with only its two neighbours present,
// since everything before it took place inside tokens. So two lists that have
// a token in common, at the same place, may be joined there: the first up to
// it, the second from it on. A window's last tokens may change with the text
// behind them, so the next window begins some tokens before its end; and
// where the two agree, they are joined.
//
// Windows agree nearly at once. Where they do not, the next attempt goes back
// twice as many tokens and on twice as far, so that no text has its bytes
// merged more than a few times each. A window that reads like the one before
// has the same tokens, so a run of one character costs next to nothing.
//
// A merger serves one goroutine at a time.
type merger struct {
	table  *table
	parts  []part // the merge so far
	window window // of the text behind it
}

// A part is a token at some place of a text.
type part struct {
	at   node
	size uint32 // bytes
}

// merge returns the tokens of piece, which is not empty. They are valid until
// the next call.
func (m *merger) merge(piece string) []part {
	m.parts = m.parts[:0]
	m.window.text = ""
	for done := 0; done < len(piece); {
		done = m.advance(piece, done)
	}
	return m.parts
}

// mergeLong is merge of a piece that is no token and takes long enough to look at
// the context now and then.
func (m *merger) mergeLong(ctx context.Context, piece string) ([]part, error) {
	m.parts = m.parts[:0]
	m.window.text = ""
	for done, looked := 0, 0; done < len(piece); {
		if done = m.advance(piece, done); done-looked >= lookEvery {
			if err := look(ctx); err != nil {
				return nil, err
			}
			looked = done
		}
	}
	return m.parts, nil
}

// advance turns the merge of the first done bytes of piece into that of some
// more, and returns how many.
func (m *merger) advance(piece string, done int) int {
	for overlap := minOverlap; ; overlap *= 2 {
		keep := max(0, len(m.parts)-overlap)
		from := done
		for _, p := range m.parts[keep:] {
			from -= int(p.size)
		}
		to := min(len(piece), from+windowLen(done-from))
		m.window.merge(m.table, piece[from:to])
		if m.append(keep) {
			return to
		}
	}
}

// windowLen is the length of a window that begins with some bytes that were
// merged before. It has few values, so that the windows of a text that
// repeats itself can be alike.
func windowLen(overlap int) int {
	n := minWindow
	for n < overlap*windowPerOverlap {
		n *= 2
	}
	return n
}

// append joins parts and the window, which begins where the part keep does,
// at the first token that they share. It reports whether there is one.
func (m *merger) append(keep int) bool {
	fresh := m.window.parts
	if keep == 0 {
		m.parts = append(m.parts[:0], fresh...)
		return true
	}
	i, j := keep, 0
	behind := 0 // bytes from the start of fresh[j] to that of parts[i]
	for i < len(m.parts) && j < len(fresh) {
		old, now := int(m.parts[i].size), int(fresh[j].size)
		switch {
		case behind == 0 && old == now:
			m.parts = append(m.parts[:i], fresh[j:]...)
			return true
		case behind+old <= now:
			behind += old
			i++
		default:
			behind -= now
			j++
		}
	}
	return false
}

// A window is a stretch of text being merged, and a tournament of its joins:
// a binary tree in an array, in which a node holds the lower of its two
// children. So each join costs the logarithm of the window's length.
type window struct {
	text  string
	parts []part // its merge, when that is done

	cells []cell   // by position in text; those inside a token are stale
	tree  []uint64 // tree[1] is the root, the second half the leaves
	steps int      // nodes of trees looked at since the window was made, for tests
}

// A cell is a token while merging.
type cell struct {
	part
	union node   // its union with the next token, or noNode
	back  uint32 // bytes to the start of the token before
}

// never is the leaf of a token that does not join the next. The leaf of one
// that does holds the rank in its upper half and the position in the lower,
// so that the lowest leaf is the next join.
const never = math.MaxUint64

// merge sets parts to the merge of text.
func (w *window) merge(t *table, text string) {
	if w.text == text {
		return
	}
	w.start(t, text)
	for w.tree[1] != never {
		w.join(t, int(uint32(w.tree[1])))
	}
	w.parts = w.parts[:0]
	for i := 0; i < len(text); i += int(w.cells[i].size) {
		w.parts = append(w.parts, w.cells[i].part)
	}
}

// start fills the window with the single bytes of text.
func (w *window) start(t *table, text string) {
	w.text = text
	leaves := 1 << bits.Len(uint(len(text)-1))
	w.cells = grow(w.cells, len(text))
	w.tree = grow(w.tree, max(2, 2*leaves))
	for i := range len(text) {
		w.cells[i] = cell{part: part{byteNode(text[i]), 1}, back: 1}
	}
	for i := range leaves {
		w.tree[leaves+i] = w.find(t, i)
	}
	for n := leaves - 1; n > 0; n-- {
		w.tree[n] = min(w.tree[2*n], w.tree[2*n+1])
	}
}

// grow is s with length n and any content.
func grow[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	return make([]T, n)
}

// find looks up the union of the token at i with the next, and returns the new
// leaf.
func (w *window) find(t *table, i int) uint64 {
	if i >= len(w.text) {
		return never
	}
	c := &w.cells[i]
	next := i + int(c.size)
	if next >= len(w.text) {
		return never
	}
	end := next + int(w.cells[next].size)
	w.steps += end - next
	c.union = t.extend(c.at, w.text[next:end])
	rank := t.rank(c.union)
	if rank == 0 {
		return never
	}
	return uint64(rank)<<32 | uint64(i)
}

// join joins the token at i and the next.
func (w *window) join(t *table, i int) {
	c := &w.cells[i]
	next := i + int(c.size)
	c.at = c.union
	c.size += w.cells[next].size
	w.set(next, never)
	if after := i + int(c.size); after < len(w.text) {
		w.cells[after].back = c.size
	}
	w.set(i, w.find(t, i))
	if i > 0 {
		before := i - int(c.back)
		w.set(before, w.find(t, before))
	}
}

// set changes a leaf.
func (w *window) set(i int, leaf uint64) {
	n := len(w.tree)/2 + i
	w.tree[n] = leaf
	for n > 1 {
		w.steps++
		leaf = min(leaf, w.tree[n^1])
		n /= 2
		if w.tree[n] == leaf {
			return
		}
		w.tree[n] = leaf
	}
}

// size is the working memory that m holds, in bytes.
func (m *merger) size() int {
	w := &m.window
	return (cap(m.parts)+cap(w.parts))*int(unsafe.Sizeof(part{})) +
		cap(w.cells)*int(unsafe.Sizeof(cell{})) + cap(w.tree)*int(unsafe.Sizeof(w.tree[0]))
}
