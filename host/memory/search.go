package memory

import (
	"container/heap"
	"context"
	"encoding/binary"
	"iter"
	"math"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/internal/words"
	"github.com/agenthost/agenthost/host/kv"
)

// The limits of a search.
const (
	DefaultHits   = 10
	MaxHits       = 100
	MaxQueryWords = 32 // words beyond them are not looked for
)

// SearchOptions are the optional parts of [Store.Search].
type SearchOptions struct {
	Limit int // of hits; default DefaultHits, at most MaxHits

	WordsOnly bool // the embedder is not asked

	// Degraded is called with the reason where a search that should compare meanings has
	// compared words alone: the embedder's error, or that the scope has too many vectors.
	// The store's log has it too.
	Degraded func(reason error)
}

// Search returns the memories of a scope that share words with query, and in a store with
// an embedder those of like meaning, the best first, and equal ones by their ids. No words or
// no memories are no hits. That the embedder is not reached is no error: see
// [SearchOptions].Degraded.
func (s *Store) Search(ctx context.Context, scope Scope, query string, opts *SearchOptions) ([]Hit, error) {
	if opts == nil {
		opts = &SearchOptions{}
	}
	limit := DefaultHits
	if opts.Limit > 0 {
		limit = min(opts.Limit, MaxHits)
	}
	o, err := s.open(ctx, scope)
	if err != nil || o.Count == 0 {
		return nil, err
	}
	ranked, err := s.rank(ctx, o, s.words.Query(query, MaxQueryWords))
	if err != nil {
		return nil, err
	}
	near, err := s.near(ctx, o, query, opts)
	if err != nil {
		return nil, err
	}
	best := ranked.all()
	if len(near) > 0 {
		best = slices.Values(fuse(ranked, near))
	}
	return s.hits(ctx, o, best, limit)
}

// near returns the memories whose meaning is near to that of a query; none if the store is
// to compare words alone, or cannot do otherwise.
func (s *Store) near(ctx context.Context, o *opened, query string, opts *SearchOptions) ([]candidate, error) {
	if s.meaning == nil || opts.WordsOnly || beginning(query) == "" {
		return nil, nil
	}
	v, err := s.meaning.embedNow(ctx, o.scope, []string{beginning(query)}, true, queryTimeout)
	var near []candidate
	if err == nil {
		near, err = s.meaning.nearest(ctx, s.driver, o, v[0], fusionDepth)
	}
	switch {
	case err == nil:
		return near, nil
	case tooLate(ctx, err):
		return nil, err
	}
	s.meaning.logger.WarnContext(ctx, "memories are searched by words alone", "tenant", o.scope.partition(), "error", err)
	if opts.Degraded != nil {
		opts.Degraded(err)
	}
	return nil, nil
}

// hits loads the first memories that have not expired.
func (s *Store) hits(ctx context.Context, o *opened, best iter.Seq[candidate], limit int) (hits []Hit, err error) {
	now := s.now()
	for best := range best {
		if len(hits) == limit {
			break
		}
		m, err := s.load(ctx, o, best.id)
		if err != nil {
			return nil, err
		}
		if m != nil && !m.expired(now) {
			hits = append(hits, Hit{&m.Memory, best.score})
		}
	}
	return hits, nil
}

// candidate is a memory that has a word of the query.
type candidate struct {
	id    string
	score float64
}

// candidates is a heap with the best on top.
type candidates []candidate

func (c candidates) Len() int { return len(c) }
func (c candidates) Less(i, j int) bool {
	return c[i].score > c[j].score || c[i].score == c[j].score && c[i].id < c[j].id
}
func (c candidates) Swap(i, j int) { c[i], c[j] = c[j], c[i] }

// all takes the candidates off the heap, the best first.
func (c *candidates) all() iter.Seq[candidate] {
	return func(yield func(candidate) bool) {
		for c.Len() > 0 && yield(heap.Pop(c).(candidate)) {
		}
	}
}

// Push implements heap.Interface.
func (c *candidates) Push(x any) { *c = append(*c, x.(candidate)) }

// Pop implements heap.Interface.
func (c *candidates) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

// rank scores the memories that have any of the stems.
func (s *Store) rank(ctx context.Context, o *opened, stems []string) (*candidates, error) {
	ix := s.cache.index(o)
	scores := map[uint32]float64{}
	mean := float64(o.Words) / float64(o.Count)
	for _, stem := range stems {
		list, err := s.postings(ctx, o, ix, stem)
		if err != nil {
			return nil, err
		}
		idf := words.IDF(o.Count, len(list))
		for _, p := range list {
			scores[p.memory] += words.Score(idf, uint64(p.times), uint64(p.words), mean)
		}
	}
	ranked := make(candidates, 0, len(scores))
	for memory, score := range scores {
		ranked = append(ranked, candidate{ix.id(memory), words.Round(score)})
	}
	heap.Init(&ranked)
	return &ranked, nil
}

// posting says that a word is in a memory.
type posting struct {
	memory uint32 // a number of the index's
	times  uint32 // how often
	words  uint32 // of how many words
}

func appendPosting(b []byte, times, words int) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(times)), uint64(words))
}

func readPosting(b []byte) (times, words uint64, ok bool) {
	times, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, 0, false
	}
	words, m := binary.Uvarint(b[n:])
	return times, words, m > 0 && n+m == len(b) && times <= math.MaxUint32 && words <= math.MaxUint32
}

// postings returns where a stem is, from the index or the store.
func (s *Store) postings(ctx context.Context, o *opened, ix *index, stem string) ([]posting, error) {
	if list, ok := ix.get(stem); ok {
		return list, nil
	}
	prefix := o.content().word(stem)
	var list []posting
	for e, err := range kv.All(ctx, s.driver, o.scope.partition(), kv.Range{Prefix: prefix, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return nil, kverror.Wrap(err, "search memories")
		}
		rest, _ := e.Key.CutPrefix(prefix)
		id, _, ok := rest.CutString()
		times, words, valid := readPosting(e.Value)
		if !ok || !valid {
			return nil, host.Errorf(host.DataLoss, "the index of memories is damaged").WithHint("restore it from a backup")
		}
		list = append(list, posting{ix.number(id), uint32(times), uint32(words)})
	}
	s.cache.put(ix, stem, list)
	return list, nil
}
