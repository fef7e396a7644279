package plugin

import (
	"crypto/sha256"

	"github.com/agenthost/agenthost/host/plugin/internal/modulecache"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
)

// preparedModule is a metered module, and its code if a cache may have that.
type preparedModule struct {
	metered *wasmmeter.Metered
	code    *verifiedCode // nil: the cache has not been asked
}

// prepare meters a module, or takes it from the cache, where it was accepted under
// the same limits. While prepare reads a module from there, its code is verified too.
func (cp *compiler) prepare(wasm []byte, l *wasmmeter.Limits) (*preparedModule, error) {
	if cp.cache == nil || len(wasm) < modulecache.MinModuleBytes {
		metered, err := wasmmeter.Prepare(wasm, l)
		if err != nil {
			return nil, err
		}
		return &preparedModule{metered: metered}, nil
	}
	m, err := wasmmeter.Survey(wasm, l)
	if err != nil {
		return nil, err
	}
	p := &preparedModule{}
	p.metered = cp.cache.Module(m, l, func(metered [sha256.Size]byte) { p.code = cp.verifyAhead(metered) })
	if p.metered != nil {
		return p, nil
	}
	metered, err := m.Meter(l)
	if err != nil {
		return nil, err
	}
	if err := cp.cache.AddModule(metered, l); err != nil {
		cp.logger.Warn("a metered module is not kept", "error", err)
	}
	return &preparedModule{metered: metered}, nil
}

// verifiedCode is an entry of code that is being verified.
type verifiedCode struct {
	done chan struct{} // closed when dir is set
	dir  string        // "": no entry
}

// wait returns the entry's directory, "" if the cache has no entry.
func (v *verifiedCode) wait() string {
	<-v.done
	return v.dir
}

// verifyAhead begins to verify the code of a metered module, if this process has
// not loaded it. [Runtime.Close] waits for it, as for the load that it is part of.
func (cp *compiler) verifyAhead(metered [sha256.Size]byte) *verifiedCode {
	cp.mu.Lock()
	loaded := cp.codes[metered] != nil
	cp.mu.Unlock()
	if loaded {
		return nil
	}
	v := &verifiedCode{done: make(chan struct{})}
	cp.work.Go(func() {
		defer close(v.done)
		v.dir = cp.cache.Code(metered)
	})
	return v
}
