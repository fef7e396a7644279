package modulecache

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
)

// MinModuleBytes is the size from which a module's metered form is worth an entry:
// smaller ones are metered in about two milliseconds.
const MinModuleBytes = 256 << 10

const (
	// moduleFormat changes with the layout of a module's entry.
	moduleFormat = "agenthost module 1"

	// The entry's file is in moduleDir, and its name says whether instances of the
	// module can be restored.
	moduleDir      = "module"
	restorableName = "restorable.wasm"
	plainName      = "plain.wasm"
)

// Module returns the metered form of a module that was accepted under the same limits,
// nil if the cache has none. Before Module reads it, ahead receives its SHA-256 as the
// seal has it, so that the caller can ask for its code meanwhile. A damaged entry is
// removed.
func (c *Cache) Module(m *wasmmeter.Module, l *wasmmeter.Limits, ahead func(metered [sha256.Size]byte)) *wasmmeter.Metered {
	key := moduleKey(m.Digest, l)
	dir := filepath.Join(c.dir, key)
	if _, err := os.Lstat(dir); err != nil {
		return nil
	}
	p := &wasmmeter.Metered{Module: m}
	s, err := readSeal(dir)
	if err == nil {
		if sum, ok := s.sum(); ok {
			ahead(sum)
		}
		err = readModule(p, dir, key, s)
	}
	if err != nil {
		c.remove(dir)
		return nil
	}
	touch(dir)
	return p
}

// sum returns the sealed file's SHA-256 as bytes.
func (s seal) sum() (sum [sha256.Size]byte, ok bool) {
	n, err := hex.Decode(sum[:], []byte(s.SHA256)[:min(len(s.SHA256), 2*len(sum))])
	return sum, err == nil && n == len(sum)
}

// moduleKey names the entry of a module by the original's bytes, the limits, and the
// versions of the format and of the meter.
func moduleKey(original [sha256.Size]byte, l *wasmmeter.Limits) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%d\x00%+v\x00%x", moduleFormat, wasmmeter.Version, *l.WithDefaults(), original)
	return hex.EncodeToString(h.Sum(nil))
}

// readModule reads the entry of a module into p and verifies it.
func readModule(p *wasmmeter.Metered, dir, key string, s seal) error {
	name, err := codeFile(dir)
	if err != nil {
		return err
	}
	if p.Wasm, err = readExactly(filepath.Join(dir, name), s.Size); err != nil {
		return err
	}
	p.Key, p.Restorable = sha256.Sum256(p.Wasm), filepath.Base(name) == restorableName
	want := seal{Key: key, Name: filepath.ToSlash(name), Size: int64(len(p.Wasm)), SHA256: hex.EncodeToString(p.Key[:])}
	if filepath.Dir(name) != moduleDir || s != want {
		return errSeal
	}
	return nil
}

// readExactly reads a file of n bytes, and fails if the file has another size.
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

// AddModule makes an entry of a module that was metered under limits.
func (c *Cache) AddModule(p *wasmmeter.Metered, l *wasmmeter.Limits) error {
	built, err := c.NewDir()
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
	key := moduleKey(p.Module.Digest, l)
	s := seal{Key: key, Name: moduleDir + "/" + name, Size: int64(len(p.Wasm)), SHA256: hex.EncodeToString(p.Key[:])}
	if err := s.write(built); err != nil {
		return err
	}
	return c.publish(key, built)
}
