package sessions

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/json"
	"strconv"

	"github.com/agenthost/agenthost/host"
)

// KeyBytes is the length of a key.
const KeyBytes = 32

// Keys seal sessions that clients keep, with AES-256-GCM. A sealed session opens
// only with its key, for the tenant it was sealed for; a changed bit is detected.
// They are immutable and safe for concurrent use.
//
// A client can still come back with an older session of its own: that is how it
// branches.
type Keys struct {
	current string
	byID    map[string]cipher.AEAD
}

// NewKeys returns a ring of keys by their ids. The key current seals; the others
// open sessions sealed before the key changed. Code invalid_argument for a key of
// another length than [KeyBytes], and if keys has no key current.
func NewKeys(current string, keys map[string][]byte) (*Keys, error) {
	k := &Keys{current: current, byID: make(map[string]cipher.AEAD, len(keys))}
	for id, key := range keys {
		if len(key) != KeyBytes {
			return nil, host.Errorf(host.InvalidArgument, "key %q has %d bytes, not %d", id, len(key), KeyBytes)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, host.Errorf(host.Internal, "key %q: %w", id, err)
		}
		if k.byID[id], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, host.Errorf(host.Internal, "key %q: %w", id, err)
		}
	}
	if k.byID[current] == nil {
		return nil, host.Errorf(host.InvalidArgument, "the current key %q is not among the keys", current)
	}
	return k, nil
}

// sealed is a session that its client cannot read.
type sealed struct {
	Version int    `json:"version"`
	Kind    string `json:"kind"`
	Key     string `json:"key"`
	Data    []byte `json:"data"`
}

const sealedKind = "sealed"

// seal returns a session for a client of a tenant to keep.
func (k *Keys) seal(state *Session, tenant string) (json.RawMessage, error) {
	raw, err := state.MarshalJSON()
	if err != nil {
		return nil, host.Errorf(host.Internal, "write session: %w", err)
	}
	out := sealed{Version: sessionVersion, Kind: sealedKind, Key: k.current}
	out.Data = k.byID[k.current].Seal(nil, nil, raw, bound(tenant, k.current))
	return json.Marshal(out)
}

// open returns the session that a client of a tenant has brought.
func (k *Keys) open(raw json.RawMessage, tenant string) (*Session, error) {
	var in sealed
	members, err := readMembers(raw)
	if err == nil {
		err = members.read(member{"version", &in.Version}, member{"kind", &in.Kind}, member{"key", &in.Key}, member{"data", &in.Data})
	}
	if err != nil || in.Kind != sealedKind {
		return nil, host.Errorf(host.InvalidArgument, "this is not a sealed session").WithHint("send what the last turn has returned as sealed")
	}
	if in.Version != sessionVersion {
		return nil, host.Errorf(host.FailedPrecondition, "the sealed session has version %d, which is not known here", in.Version).
			WithHint("use it with the version that wrote it, or a newer one; nothing was changed")
	}
	key := k.byID[in.Key]
	if key == nil {
		return nil, host.Errorf(host.PermissionDenied, "the session is sealed with a key that is not here").
			WithHint("keep a key for as long as sessions are around that it has sealed")
	}
	plain, err := key.Open(nil, nil, in.Data, bound(tenant, in.Key))
	if err != nil {
		return nil, host.Errorf(host.PermissionDenied, "the sealed session was changed, or is another's").
			WithHint("send what the last turn has returned, as it is")
	}
	state := &Session{}
	if err := state.UnmarshalJSON(plain); err != nil {
		return nil, err
	}
	return state, nil
}

// bound is the associated data of a seal: tenant and key. Lengths keep two
// pairs of names from reading alike.
func bound(tenant, key string) []byte {
	var b []byte
	for _, s := range []string{tenant, key} {
		b = append(strconv.AppendInt(b, int64(len(s)), 10), ':')
		b = append(b, s...)
	}
	return b
}
