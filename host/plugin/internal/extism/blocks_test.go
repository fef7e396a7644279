package extism

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host/plugin/internal/linearmem"
)

// Blocks are zero when they are given out, whatever was written to that memory
// before, and what is claimed is at least what is used.
func TestBlocksAreZeroAndCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := &linearmem.Budget{Limit: 1 << 30}
		b := &blocks{limit: 1 << 20, claim: linearmem.Claim{Budget: from}}
		defer func() {
			b.close()
			if n := from.Used(); n != 0 {
				t.Fatalf("%d bytes are claimed after the end", n)
			}
		}()
		var live []uint64
		t.Repeat(map[string]func(*rapid.T){
			"alloc": func(t *rapid.T) {
				n := rapid.OneOf(rapid.Uint64Range(1, 100), rapid.Uint64Range(1, 200_000)).Draw(t, "size")
				at, ok := b.alloc(n)
				if !ok {
					return
				}
				for i, v := range b.bytes(at) {
					if v != 0 {
						t.Fatalf("byte %d of the block at %d is %d", i, at, v)
					}
				}
				live = append(live, at)
			},
			"free": func(t *rapid.T) {
				if len(live) > 0 {
					i := rapid.IntRange(0, len(live)-1).Draw(t, "which")
					b.free(live[i])
					live = append(live[:i], live[i+1:]...)
				}
			},
			"scribble": func(t *rapid.T) { // anywhere a plugin may
				if v, ok := b.view(blocksStart, uint64(max(len(b.mem)-blocksStart, 0))); ok {
					for i := range v {
						v[i] = 0xee
					}
				}
			},
			"reset": func(t *rapid.T) {
				b.reset(maxKeptBlocks)
				live = live[:0]
				if n := from.Used(); n > maxKeptBlocks {
					t.Fatalf("%d bytes are claimed after a reset", n)
				}
			},
			"": func(t *rapid.T) {
				if n := from.Used(); n < int64(len(b.mem)+len(b.list)*blockWeight) || n > 1<<20+3*pageBytes {
					t.Fatalf("%d bytes are claimed for %d and %d blocks", n, len(b.mem), len(b.list))
				}
			},
		})
	})
}
