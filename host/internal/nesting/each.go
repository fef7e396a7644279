package nesting

import (
	"context"
	"sync"
	"sync/atomic"
)

// Each calls run with the numbers from 0 to n-1, in their order, at the same time as far as
// slots has room, and returns when all have returned. Several may share slots. After ctx
// has ended it waits for no slot, for the calls then end at once.
func Each(ctx context.Context, slots chan struct{}, n int, run func(i int)) {
	each := func(i int) {
		if takeSlot(ctx, slots) {
			defer func() { <-slots }()
		}
		run(i)
	}
	if n == 1 {
		each(0)
		return
	}
	var next atomic.Int64
	var working sync.WaitGroup
	var work func()
	work = func() {
		defer working.Done()
		returned := true
		defer func() {
			if !returned { // run has ended the goroutine, not the process: another takes over
				working.Add(1)
				go work()
			}
		}()
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			returned = false
			each(i)
			returned = true
		}
	}
	for range min(cap(slots), n) {
		working.Add(1)
		go work()
	}
	working.Wait()
}

// takeSlot waits for room in slots, unless ctx ends first.
func takeSlot(ctx context.Context, slots chan struct{}) bool {
	select { // without a second channel it costs a third
	case slots <- struct{}{}:
		return true
	default:
	}
	select {
	case slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}
