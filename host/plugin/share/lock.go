package share

import (
	"encoding/json"
	"io"
	"maps"

	"github.com/opencontainers/go-digest"

	"github.com/agenthost/agenthost/host/fault"
)

// LockName is the file of a project that has the digests of its shared plugins.
const LockName = "agenthost.lock"

// The form of lock files.
const (
	lockVersion  = 1
	maxLockBytes = 4 << 20
)

// Locked is what a reference named when it was locked.
type Locked struct {
	Digest string `json:"digest"`           // of the artifact
	Module string `json:"module"`           // the digest of its module
	Size   int    `json:"size"`             // of the module
	Signed string `json:"signed,omitempty"` // by this key or identity, when it was locked
}

// Lock holds what references name, so that a project has the same plugins wherever it
// runs, until a person has them updated. It is not safe for concurrent use.
type Lock struct{ plugins map[string]Locked }

type lockFile struct {
	Version int               `json:"version"`
	Plugins map[string]Locked `json:"plugins"`
}

// ReadLock reads a lock file. Code invalid_argument for one that cannot be read.
func ReadLock(r io.Reader) (*Lock, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxLockBytes+1))
	if err != nil {
		return nil, fault.Wrap(err, "read "+LockName)
	}
	var file lockFile
	switch err := json.Unmarshal(raw, &file); {
	case len(raw) > maxLockBytes:
		return nil, fault.Errorf(fault.ResourceExhausted, "%s is larger than %d bytes", LockName, maxLockBytes)
	case err != nil:
		return nil, fault.Errorf(fault.InvalidArgument, "%s is not JSON of its form: %v", LockName, err).WithHint("restore it, or remove it and pull the plugins again")
	case file.Version != lockVersion:
		return nil, fault.Errorf(fault.InvalidArgument, "%s has version %d, and this program knows %d", LockName, file.Version, lockVersion)
	}
	for source, l := range file.Plugins {
		if digest.Digest(l.Digest).Validate() != nil || digest.Digest(l.Module).Validate() != nil {
			return nil, fault.Errorf(fault.InvalidArgument, "%s: the digests of %.200q cannot be read", LockName, source).
				WithHint("restore it, or pull the plugin again")
		}
	}
	return &Lock{plugins: file.Plugins}, nil
}

// Get returns the entry of a reference, as the configuration writes it.
func (l *Lock) Get(source string) (Locked, bool) {
	entry, ok := l.plugins[source]
	return entry, ok
}

// Set puts an entry in.
func (l *Lock) Set(source string, entry Locked) {
	if l.plugins == nil {
		l.plugins = map[string]Locked{}
	}
	l.plugins[source] = entry
}

// Keep removes the entries of all but the given references.
func (l *Lock) Keep(sources map[string]bool) {
	maps.DeleteFunc(l.plugins, func(source string, _ Locked) bool { return !sources[source] })
}

// WriteTo writes the lock file, in the same order each time.
func (l *Lock) WriteTo(w io.Writer) (int64, error) {
	file := lockFile{lockVersion, l.plugins}
	if file.Plugins == nil {
		file.Plugins = map[string]Locked{}
	}
	raw, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return 0, fault.Wrap(err, "write "+LockName)
	}
	n, err := w.Write(append(raw, '\n'))
	return int64(n), err
}

// Entry returns the entry of an artifact that was pulled.
func Entry(a *Artifact, signer string) Locked {
	return Locked{Digest: a.Digest, Module: a.ModuleDigest(), Size: len(a.Module), Signed: signer}
}

// Check refuses an artifact with another module than the locked one, with code data_loss.
func (l Locked) Check(a *Artifact) error {
	if got := a.ModuleDigest(); got != l.Module {
		return fault.Errorf(fault.DataLoss, "the module has the digest %s, and %s has %s", got, LockName, l.Module).
			WithHint("%s was edited: restore it, or pull the plugin again", LockName)
	}
	return nil
}
