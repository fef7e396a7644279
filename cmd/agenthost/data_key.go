package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"os"

	"github.com/agenthost/agenthost/host"
)

// The variables that have the key of an encrypted data directory, or name the
// file that has it.
const (
	keyVariable     = "AGENTHOST_DATA_KEY"
	keyFileVariable = "AGENTHOST_DATA_KEY_FILE"
)

// dataKeyBytes is the size of a key: AES-256.
const dataKeyBytes = 32

// maxKeyFile bounds what is read of a key's file.
const maxKeyFile = 4096

// dataKey is the key that data directories are encrypted with; nil if there is
// none.
func (env *environment) dataKey() ([]byte, error) {
	text, file := env.getenv(keyVariable), env.getenv(keyFileVariable)
	switch {
	case text != "" && file != "":
		return nil, host.Errorf(host.InvalidArgument, "both %s and %s are set", keyVariable, keyFileVariable).WithHint("set one of them")
	case text != "":
		return parseKey([]byte(text), keyVariable)
	case file != "":
		return readKey(file)
	}
	return nil, nil
}

// readKey reads a key from a file.
func readKey(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "read the data key: %w", err).WithHint(makeKeyHint, file)
	}
	defer f.Close()
	b, err := readAll(f, maxKeyFile, "the key in "+file)
	if err != nil {
		return nil, err
	}
	return parseKey(b, file)
}

const makeKeyHint = "make one with: openssl rand -hex 32 > %s"

// parseKey reads a key: 64 hexadecimal digits, the same in base64, or the bytes as
// they are. What it holds is in no error.
func parseKey(b []byte, where string) ([]byte, error) {
	if len(b) == dataKeyBytes {
		return b, nil
	}
	text := string(bytes.TrimSpace(b))
	if key, err := hex.DecodeString(text); err == nil && len(key) == dataKeyBytes {
		return key, nil
	}
	if key, err := base64.StdEncoding.DecodeString(text); err == nil && len(key) == dataKeyBytes {
		return key, nil
	}
	return nil, host.Errorf(host.InvalidArgument, "the data key in %s is not %d bytes in hexadecimal or base64", where, dataKeyBytes).WithHint(makeKeyHint, "FILE")
}
