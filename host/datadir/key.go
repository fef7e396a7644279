package datadir

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
)

// The variables that hold the key of an encrypted data directory, or name the file
// that holds it.
const (
	KeyVariable     = "AGENTHOST_DATA_KEY"
	KeyFileVariable = "AGENTHOST_DATA_KEY_FILE"
)

// keyBytes is the size of a key: AES-256.
const keyBytes = 32

// maxKeyFile bounds the bytes that are read of a key's file.
const maxKeyFile = 4096

// Key returns the encryption key of data directories, from the variables [KeyVariable]
// or [KeyFileVariable]; nil if neither is set. Code invalid_argument if both are set, or
// if the value is not a key.
func Key(getenv func(string) string) ([]byte, error) {
	text, file := getenv(KeyVariable), getenv(KeyFileVariable)
	switch {
	case text != "" && file != "":
		return nil, host.Errorf(host.InvalidArgument, "both %s and %s are set", KeyVariable, KeyFileVariable).WithHint("set one of them")
	case text != "":
		return parseKey([]byte(text), KeyVariable)
	case file != "":
		return ReadKey(file)
	}
	return nil, nil
}

// ReadKey reads a key from a file.
func ReadKey(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "read the data key: %w", err).WithHint(makeKeyHint, file)
	}
	defer f.Close()
	b, err := ReadBounded(f, maxKeyFile, "the key in "+file)
	if err != nil {
		return nil, err
	}
	return parseKey(b, file)
}

const makeKeyHint = "make one with: openssl rand -hex 32 > %s"

// parseKey reads a key: 64 hexadecimal digits, the same in base64, or the bytes
// themselves. No error quotes the key.
func parseKey(b []byte, source string) ([]byte, error) {
	if len(b) == keyBytes {
		return b, nil
	}
	text := string(bytes.TrimSpace(b))
	if key, err := hex.DecodeString(text); err == nil && len(key) == keyBytes {
		return key, nil
	}
	if key, err := base64.StdEncoding.DecodeString(text); err == nil && len(key) == keyBytes {
		return key, nil
	}
	return nil, host.Errorf(host.InvalidArgument, "the data key in %s is not %d bytes in hexadecimal or base64", source, keyBytes).WithHint(makeKeyHint, "FILE")
}

// KeyFilePath returns the file of a data directory's tenant data keys.
func KeyFilePath(dir string) string { return filepath.Join(StorePath(dir), badgerkv.KeyFile) }

// ReadBounded reads at most max bytes, and refuses more with code
// resource_exhausted. Errors call the input by name. A read that was canceled keeps
// its error.
func ReadBounded(r io.Reader, max int, name string) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, int64(max)+1))
	if host.CodeOf(err) == host.Canceled {
		return nil, err
	}
	if err != nil {
		return nil, host.Errorf(host.FailedPrecondition, "read %s: %w", name, err)
	}
	if len(b) > max {
		return nil, host.Errorf(host.ResourceExhausted, "%s is more than %d bytes", name, max).WithHint("give less at once")
	}
	return b, nil
}

// ReadFile reads a file of at most max bytes. Code not_found if there is none.
func ReadFile(name string, max int) ([]byte, error) {
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, host.Errorf(host.NotFound, "there is no file %s", name).WithHint("check the path")
	}
	if err != nil {
		return nil, host.Errorf(host.FailedPrecondition, "%w", err)
	}
	defer f.Close()
	return ReadBounded(f, max, name)
}
