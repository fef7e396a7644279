package modulecache

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/agenthost/agenthost/host/fault"
)

// sealFile is the seal's name in an entry.
const sealFile = "seal"

// seal describes an entry. It detects damage and mistakes that wazero's own check, 32
// bits over a part of the file, does not; a user who can write a file here can write
// its seal.
type seal struct {
	Key    string `json:"key"`
	Name   string `json:"name"` // of the file, relative to the entry
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// touch marks an entry as used now.
func touch(dir string) {
	now := time.Now()
	_ = os.Chtimes(filepath.Join(dir, sealFile), now, now) // else it looks older than it is
}

// sealCode seals the compiled code in a directory.
func sealCode(dir, key string) error {
	name, err := codeFile(dir)
	if err != nil {
		return err
	}
	s := seal{Key: key, Name: filepath.ToSlash(name)}
	if s.Size, s.SHA256, err = digestFile(filepath.Join(dir, name)); err != nil {
		return err
	}
	return s.write(dir)
}

// write puts the seal into an entry.
func (s seal) write(dir string) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, sealFile), b, 0o600)
}

// maxSeal bounds a seal's file.
const maxSeal = 4 << 10

// errSeal says that an entry is damaged or another's.
var errSeal = errors.New("an entry is not what its seal says")

// readSeal reads the seal of an entry that belongs to this user alone.
func readSeal(dir string) (s seal, err error) {
	info, err := os.Lstat(dir)
	if err != nil {
		return s, err
	}
	if err := checkPrivate(dir, info); err != nil {
		return s, err
	}
	f, err := os.Open(filepath.Join(dir, sealFile))
	if err != nil {
		return s, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSeal+1))
	if err != nil {
		return s, err
	}
	if len(b) > maxSeal {
		return s, errSeal
	}
	return s, json.Unmarshal(b, &s)
}

// verify returns why an entry is not what its key promises, nil if it is.
func verify(dir, key string) error {
	s, err := readSeal(dir)
	if err != nil {
		return err
	}
	name, err := codeFile(dir)
	if err != nil {
		return err
	}
	size, digest, err := digestFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	if is := (seal{Key: key, Name: filepath.ToSlash(name), Size: size, SHA256: digest}); is != s {
		return errSeal
	}
	return nil
}

// CheckCode fails unless an engine has left exactly one file of code in a directory.
func CheckCode(dir string) error {
	_, err := codeFile(dir)
	return err
}

// codeFile returns the one file that an engine wrote into a directory, relative to
// it. A seal may stand beside it, and nothing else.
func codeFile(dir string) (string, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var found []string
	for _, e := range list {
		if e.Name() == sealFile {
			continue
		}
		inner, err := os.ReadDir(filepath.Join(dir, e.Name()))
		if err != nil {
			return "", err
		}
		for _, f := range inner {
			if !f.Type().IsRegular() {
				return "", errors.New("an entry holds what is not a file")
			}
			found = append(found, filepath.Join(e.Name(), f.Name()))
		}
	}
	if len(found) != 1 {
		return "", fault.Errorf(fault.Internal, "there are %d files of code, not one", len(found))
	}
	return found[0], nil
}

func digestFile(path string) (size int64, digest string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	h := sha256.New()
	size, err = io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{f}, make([]byte, 256<<10))
	return size, hex.EncodeToString(h.Sum(nil)), err
}
