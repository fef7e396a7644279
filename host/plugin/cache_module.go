package plugin

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
)

// Metered modules in the cache, beside their code: metering a large one takes
// longer than reading it. An entry is like one of code, with a seal, and in a
// directory the metered module under a name that says whether it is restorable.

const (
	// moduleFormat changes with what an entry of a module looks like.
	moduleFormat = "agenthost module 1"
	// keptModule is from how many bytes on a module is worth an entry: smaller
	// ones are metered in about two milliseconds.
	keptModule = 256 << 10

	moduleDir      = "module"
	restorableName = "restorable.wasm"
	plainName      = "plain.wasm"
)

// preparedModule is a metered module, and its code if a cache may have that.
type preparedModule struct {
	metered *wasmmeter.Metered
	code    *verifiedCode // nil: the cache has not been asked
}

// prepare meters a module, or takes it from the cache, where it was accepted under
// the same limits.
func (cp *compiler) prepare(wasm []byte, l *wasmmeter.Limits) (*preparedModule, error) {
	if cp.cache == nil || len(wasm) < keptModule {
		p, err := wasmmeter.Prepare(wasm, l)
		if err != nil {
			return nil, err
		}
		return &preparedModule{metered: p}, nil
	}
	m, err := wasmmeter.Survey(wasm, l)
	if err != nil {
		return nil, err
	}
	key := cp.cache.moduleKey(m.Digest, l)
	if p := cp.keptModule(key, m); p != nil {
		return p, nil
	}
	p, err := m.Meter(l)
	if err != nil {
		return nil, err
	}
	if err := cp.cache.addModule(key, p); err != nil {
		cp.logger.Warn("a metered module is not kept", "error", err)
	}
	return &preparedModule{metered: p}, nil
}

// moduleKey names the entry of a module by the module's bytes, its limits, and the
// versions of the format and of the meter.
func (c *codeCache) moduleKey(original [sha256.Size]byte, l *wasmmeter.Limits) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%d\x00%+v\x00%x", moduleFormat, wasmmeter.Version, *l.WithDefaults(), original)
	return hex.EncodeToString(h.Sum(nil))
}

// keptModule returns a metered module from the cache, nil if it is not there.
// A damaged entry is removed. While keptModule reads and verifies the module, its
// code is verified too.
func (cp *compiler) keptModule(key string, m *wasmmeter.Module) *preparedModule {
	dir := filepath.Join(cp.cache.dir, key)
	if _, err := os.Lstat(dir); err != nil {
		return nil
	}
	is, err := readSeal(dir)
	p := &preparedModule{metered: &wasmmeter.Metered{Module: m}}
	if err == nil {
		p.code = cp.verifyAhead(is.SHA256)
		err = readModuleEntry(p.metered, dir, key, is)
	}
	if err != nil {
		cp.cache.remove(dir)
		return nil
	}
	cp.cache.use(dir)
	return p
}

// readModuleEntry reads an entry of a module into p and verifies it on the way.
func readModuleEntry(p *wasmmeter.Metered, dir, key string, is seal) error {
	name, err := codeFile(dir)
	if err != nil {
		return err
	}
	if p.Wasm, err = readExactly(filepath.Join(dir, name), is.Size); err != nil {
		return err
	}
	p.Key, p.Restorable = sha256.Sum256(p.Wasm), filepath.Base(name) == restorableName
	want := seal{key, filepath.ToSlash(name), int64(len(p.Wasm)), hex.EncodeToString(p.Key[:])}
	if filepath.Dir(name) != moduleDir || is != want {
		return errSeal
	}
	return nil
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
func (cp *compiler) verifyAhead(digest string) *verifiedCode {
	var key [sha256.Size]byte
	if n, err := hex.Decode(key[:], []byte(digest)[:min(len(digest), 2*len(key))]); err != nil || n != len(key) {
		return nil
	}
	cp.mu.Lock()
	loaded := cp.codes[key] != nil
	cp.mu.Unlock()
	if loaded {
		return nil
	}
	v := &verifiedCode{done: make(chan struct{})}
	cp.work.Go(func() {
		defer close(v.done)
		v.dir = cp.cache.get(cp.cache.key(key))
	})
	return v
}

// readExactly reads a file that has n bytes, if that is what it has.
func readExactly(path string, n int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() != n {
		return nil, errSeal
	}
	b := make([]byte, n)
	_, err = io.ReadFull(f, b)
	return b, err
}

// addModule makes an entry of a metered module.
func (c *codeCache) addModule(key string, p *wasmmeter.Metered) error {
	built, err := os.MkdirTemp(c.dir, buildPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(built)
	name := plainName
	if p.Restorable {
		name = restorableName
	}
	if err := os.Mkdir(filepath.Join(built, moduleDir), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(built, moduleDir, name), p.Wasm, 0o600); err != nil {
		return err
	}
	s := seal{Key: key, Name: moduleDir + "/" + name, Size: int64(len(p.Wasm)), SHA256: hex.EncodeToString(p.Key[:])}
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(built, sealFile), b, 0o600); err != nil {
		return err
	}
	return c.place(key, built)
}
