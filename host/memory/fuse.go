package memory

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/agenthost/agenthost/host/internal/words"
)

// The fusion of two lists of hits by the ranks in them, since their scores have nothing in
// common [Cormack, Clarke and Büttcher, Reciprocal Rank Fusion, 2009].
const (
	fusionK     = 60  // how slowly the weight of ranks falls
	fusionDepth = 200 // how much of each list is fused; at least twice MaxHits
)

// fuse returns one list of two, the best first.
func fuse(byWords *candidates, byMeaning []candidate) []candidate {
	scores := map[string]float64{}
	add := func(rank int, id string) { scores[id] += 1 / float64(fusionK+rank) }
	for rank := 1; byWords.Len() > 0 && rank <= fusionDepth; rank++ {
		add(rank, heap.Pop(byWords).(candidate).id)
	}
	for i, c := range byMeaning {
		add(i+1, c.id)
	}
	out := make([]candidate, 0, len(scores))
	for id, score := range scores {
		out = append(out, candidate{id, words.Round(score)})
	}
	slices.SortFunc(out, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.id, b.id))
	})
	return out
}
