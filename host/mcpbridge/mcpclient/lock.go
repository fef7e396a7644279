package mcpclient

import (
	"encoding/json"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/agenthost/agenthost/host/fault"
)

// LockName is the file of a project that has the accepted definitions.
const LockName = "agenthost.mcp.lock"

// maxLockBytes bounds a lock file.
const maxLockBytes = 16 << 20

// lockVersion is the version of the form of lock files.
const lockVersion = 1

// Lock holds the definitions of tools that a person has accepted, by server: a server of
// all tenants by its name, one of a tenant as TENANT/NAME. A server that it does not have is
// pinned to the definitions that it gives first. It is safe for concurrent use.
type Lock struct {
	mu      sync.Mutex
	servers map[string]map[string]Definition // by key of the server, and by name
}

// lockFile is the form of a lock file.
type lockFile struct {
	Version int                              `json:"version"`
	Servers map[string]map[string]lockedTool `json:"servers"`
}

type lockedTool struct {
	Digest string `json:"digest"`
	Definition
}

// ReadLock reads a lock file. Code invalid_argument for one that cannot be read, and for a
// definition that does not fit its digest.
func ReadLock(r io.Reader) (*Lock, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxLockBytes+1))
	if err != nil {
		return nil, fault.Wrap(err, "read the lock of MCP servers")
	}
	var file lockFile
	switch err := json.Unmarshal(raw, &file); {
	case len(raw) > maxLockBytes:
		return nil, fault.Errorf(fault.ResourceExhausted, "the lock of MCP servers is larger than %d bytes", maxLockBytes)
	case err != nil:
		return nil, fault.Errorf(fault.InvalidArgument, "the lock of MCP servers is not JSON of its form: %v", err).WithHint("restore it, or remove it and accept the servers again")
	case file.Version != lockVersion:
		return nil, fault.Errorf(fault.InvalidArgument, "the lock of MCP servers has version %d, and this program knows %d", file.Version, lockVersion)
	}
	l := &Lock{servers: map[string]map[string]Definition{}}
	for key, tools := range file.Servers {
		l.servers[key] = map[string]Definition{}
		for name, t := range tools {
			if t.Schema, err = compact(t.Schema); err != nil || t.Name != name || t.Definition.Digest() != t.Digest {
				return nil, fault.Errorf(fault.InvalidArgument, "the lock of MCP servers: tool %q of %q does not fit its digest", name, key).
					WithHint("it was edited: restore it, or accept the tool again")
			}
			l.servers[key][name] = t.Definition
		}
	}
	return l, nil
}

// compact returns JSON as encoding/json writes it, whatever white space a file has.
func compact(raw json.RawMessage) (json.RawMessage, error) {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// WriteTo writes the lock file, in the same order each time.
func (l *Lock) WriteTo(w io.Writer) (int64, error) {
	l.mu.Lock()
	file := lockFile{lockVersion, map[string]map[string]lockedTool{}}
	for key, tools := range l.servers {
		file.Servers[key] = map[string]lockedTool{}
		for name, d := range tools {
			file.Servers[key][name] = lockedTool{d.Digest(), d}
		}
	}
	l.mu.Unlock()
	raw, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return 0, fault.Wrap(err, "write the lock of MCP servers")
	}
	n, err := w.Write(append(raw, '\n'))
	return int64(n), err
}

// definitions returns the accepted definitions of a server by name; nil for a server that
// the lock does not have.
func (l *Lock) definitions(key string) map[string]Definition {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.servers[key])
}

// accept puts definitions in the place of a server's, for the given names; those that are
// absent are removed.
func (l *Lock) accept(key string, names []string, listed map[string]Definition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.servers == nil {
		l.servers = map[string]map[string]Definition{}
	}
	if l.servers[key] == nil {
		l.servers[key] = map[string]Definition{}
	}
	for _, name := range names {
		if d, ok := listed[name]; ok {
			l.servers[key][name] = d
		} else {
			delete(l.servers[key], name)
		}
	}
}

// Take has the lock hold the definitions of another one instead of its own: of a lock that was
// read again.
func (l *Lock) Take(other *Lock) {
	other.mu.Lock()
	servers := maps.Clone(other.servers)
	for key, tools := range servers {
		servers[key] = maps.Clone(tools)
	}
	other.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.servers = servers
}

// Keys returns the keys of the servers that the lock has, sorted.
func (l *Lock) Keys() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.servers))
}

var _ io.WriterTo = (*Lock)(nil)
