package plugin

import (
	"sync"
	"time"

	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
	"github.com/agenthost/agenthost/host/plugin/internal/linearmem"
)

// image is the state of an instance after its start-up code. New instances are filled
// from it, and used ones restored to it. Many goroutines read it at once; it never
// changes.
//
// It is exact, because memory and mutable globals are all that a call can
// change of a restorable module (see wasmmeter.Metered) besides what the WASI functions
// in keepsFiles keep, and an instance that called one of those is never
// restored. It holds nothing of any tenant, because start-up code runs before
// there is one, with a virtual clock and fixed random bytes; no image is taken
// where it has read the real ones.
type image struct {
	memory  *linearmem.Image
	globals []uint64 // in the order of wasmModule.savedGlobals

	random bool          // the start-up code has read the fixed random bytes
	took   time.Duration // how much virtual time it took
}

// suits reports whether start-up code would leave the same for a tenant: not if it
// read random bytes and that one is granted real ones, as a generator seeded with
// fixed bytes must not be given to a tenant that was promised random ones. Clocks are
// no reason: start-up code reads the virtual time for every tenant.
func (im *image) suits(s *binding) bool { return !im.random || !s.rights().granted.Random }

// keeps lists the parts of a module's state that an image has to keep, and whether it
// can.
type keeps struct {
	restorable bool  // see wasmmeter.Metered
	globals    []int // mutable ones
	tables     int64 // bytes that its tables count for
	price      int64 // of an instance, in instructions
}

func (p *preparedModule) keeps(l *Limits) keeps {
	m := p.metered
	return keeps{restorable: m.Restorable, globals: m.Module.SavedGlobals(), tables: tableBytes(m, uint32(l.TableEntries)), price: priceOfInstance(m.Module)}
}

// images are those of one compiled module. Start-up code may tell limits apart,
// so each set of them has its own.
type images struct {
	startUp startRecord

	mu   sync.Mutex
	list map[Limits]*image
}

func (i *images) get(l Limits) *image {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.list[l]
}

// put keeps an image, unless there is one; it returns the one that is kept.
func (i *images) put(l Limits, im *image) *image {
	i.mu.Lock()
	defer i.mu.Unlock()
	if old := i.list[l]; old != nil {
		return old
	}
	if i.list == nil {
		i.list = map[Limits]*image{}
	}
	i.list[l] = im
	return im
}

// heldBefore returns the ranges that are not zero in a memory that was just
// instantiated, if the plugin has images. It fails if the call's time is up.
func (inst *instance) heldBefore() ([]linearmem.Range, error) {
	if !inst.plugin.module.hasImages() || inst.guest.memory.Size() == 0 {
		return nil, nil
	}
	held, ok := linearmem.NonZero(inst.guest.bytes(int(inst.guest.memory.Size())), inst.meter.YieldAfterBytes)
	if !ok {
		return nil, inst.meter.LateError()
	}
	return held, nil
}

// keepImage takes the image of an instance whose start-up code has just run,
// unless one is there or it would not be exact. It fails if the call's time is up.
func (inst *instance) keepImage(before []linearmem.Range) error {
	p := inst.plugin
	if _, random := inst.wasi.ReadRandom(); random || !p.module.hasImages() || inst.wasi.KeepsState() || inst.extism.HasOwn() {
		return nil
	}
	if inst.image = p.module.images().get(p.limits); inst.image == nil {
		im := &image{memory: linearmem.Take(inst.guest.bytes(int(inst.guest.memory.Size())), before, inst.meter.YieldAfterBytes)}
		if im.memory == nil {
			return inst.meter.LateError()
		}
		for _, g := range inst.guest.globals {
			im.globals = append(im.globals, g.Get())
		}
		im.random, _ = inst.wasi.ReadRandom()
		im.took = inst.wasi.StartTook()
		inst.image = p.module.images().put(p.limits, im)
	}
	inst.link.Restored = true
	return nil
}

// fill makes an instance that was just instantiated equal to its image. It fails
// if the call's time is up.
func (inst *instance) fill(im *image) error {
	if !im.memory.Fill(inst.guest.bytes(im.memory.Size()), inst.meter.YieldAfterBytes) {
		return inst.meter.LateError()
	}
	inst.image, inst.link.Restored = im, true
	inst.guest.setGlobals(im.globals)
	inst.wasi.EndStart(im.took)
	_ = inst.meter.Settle(int64(im.memory.Size())/callmeter.BytesPerInstruction, time.Now())
	return nil
}

// restore brings an instance whose call returned normally back to its image. It
// reports whether it could: then nothing of the call is left in it. It does not
// if the call's time is up or its caller has left: throwing the instance away
// costs them less.
func (inst *instance) restore() bool {
	im := inst.image
	if im == nil || inst.wasi.KeepsState() || !inst.guest.resize(im.memory.Size(), inst.meter.YieldAfterBytes) {
		return false
	}
	if !im.memory.Restore(inst.guest.bytes(im.memory.Size()), inst.meter.YieldAfterBytes) {
		return false
	}
	inst.guest.setGlobals(im.globals)
	inst.extism.Forget()
	inst.link.Restored = true
	return true
}
