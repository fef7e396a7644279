package pgkv

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/internal/datakey"
)

const (
	wrapInfo  = "agenthost postgres keys 1"
	checkText = "agenthost"
	markBytes = 16
	// maxCachedKeys bounds the partitions whose keys a store remembers.
	maxCachedKeys = 4096
)

// keyring seals the values of a store with the data keys of their partitions. The data
// keys are in the table data_keys, sealed with the store's key.
type keyring struct {
	wrap *datakey.Key // nil: values are not sealed

	mu    sync.Mutex
	cache map[string]*sealer
}

// sealer has the data key of a partition.
type sealer struct {
	partition string
	id        int64        // of the partition
	erasing   bool         // the partition is marked, and has no key
	key       *datakey.Key // nil: it is not made yet, or destroyed
	mark      []byte       // the key of marks
}

// dataKeyID is the number of a partition's only data key.
const dataKeyID = 1

func newKeyring(storeKey []byte) (*keyring, error) {
	r := &keyring{cache: map[string]*sealer{}}
	switch len(storeKey) {
	case 0:
		return r, nil
	case 16, 24, 32:
	default:
		return nil, fmt.Errorf("%w: the key has %d bytes, not 16, 24 or 32; make one with: openssl rand -hex 32", kv.ErrInvalid, len(storeKey))
	}
	derived, err := hkdf.Key(sha256.New, storeKey, nil, wrapInfo, datakey.Bytes)
	if err != nil {
		return nil, err
	}
	r.wrap = datakey.New(derived, false)
	return r, nil
}

func (r *keyring) seals() bool { return r.wrap != nil }

// newCheck returns the text by which tables know their key; nil without a key.
func (r *keyring) newCheck() ([]byte, error) {
	if !r.seals() {
		return nil, nil
	}
	return r.wrap.Seal(nil, []byte(checkText), []byte("check"))
}

// verify compares the key with the tables'.
func (r *keyring) verify(check []byte) error {
	switch {
	case check == nil && !r.seals():
		return nil
	case check == nil:
		return fmt.Errorf("%w: it is not encrypted, and a key was given; leave the key out, or copy the data into another schema with the key", kv.ErrKey)
	case !r.seals():
		return fmt.Errorf("%w: it is encrypted, and no key was given; give the one that it was made with", kv.ErrKey)
	}
	if text, err := r.wrap.Open(check, []byte("check")); err != nil || string(text) != checkText {
		return fmt.Errorf("%w: it is encrypted with another one; give the one that it was made with", kv.ErrKey)
	}
	return nil
}

// newWrapped returns a new data key and key of marks for a partition, sealed with the
// store's key.
func (r *keyring) newWrapped(partition string) ([]byte, error) {
	raw := make([]byte, 2*datakey.Bytes)
	_, _ = rand.Read(raw) // never fails
	return r.wrap.Seal(nil, raw, []byte("key "+partition))
}

// unwrap returns the keys that newWrapped has sealed, for the partition of a number.
func (r *keyring) unwrap(partition string, id int64, wrapped []byte) (*sealer, error) {
	raw, err := r.wrap.Open(wrapped, []byte("key "+partition))
	if err != nil || len(raw) != 2*datakey.Bytes {
		return nil, fmt.Errorf("%w: the data key of a partition is not what was written; restore the database from a backup", kv.ErrCorrupt)
	}
	return &sealer{partition: partition, id: id, key: datakey.New(raw[:datakey.Bytes], false), mark: raw[datakey.Bytes:]}, nil
}

func (r *keyring) cached(partition string) *sealer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cache[partition]
}

func (r *keyring) keep(s *sealer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.cache) >= maxCachedKeys {
		for partition := range r.cache { // any
			delete(r.cache, partition)
			break
		}
	}
	r.cache[s.partition] = s
}

func (r *keyring) forget(partition string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.cache, partition)
}

// place returns the bytes to which a value is bound. The revision is not among them: the
// server gives it after the value is sealed.
func (k *sealer) place(key kv.Key) []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(k.partition)+len(key)), uint32(len(k.partition)))
	return append(append(b, k.partition...), key...)
}

func (k *sealer) seal(key kv.Key, value []byte) ([]byte, error) {
	return k.key.Seal(make([]byte, 0, len(value)+datakey.Overhead), value, k.place(key))
}

func (k *sealer) open(key kv.Key, sealed []byte) ([]byte, error) {
	value, err := k.key.Open(sealed, k.place(key))
	if err != nil {
		return nil, fmt.Errorf("%w: the value of key %s is not what was sealed; restore it from a backup", kv.ErrCorrupt, key)
	}
	return notNil(value), nil
}

// markOf returns a keyed digest of a value at its place, by which a fence compares values
// that are sealed differently each time.
func (k *sealer) markOf(key kv.Key, value []byte) []byte {
	h := hmac.New(sha256.New, k.mark)
	place := k.place(key)
	var size [4]byte
	binary.BigEndian.PutUint32(size[:], uint32(len(place)))
	h.Write(size[:])
	h.Write(place)
	h.Write(value)
	return h.Sum(nil)[:markBytes]
}

// loadKeysSQL returns the partitions of the given names that exist, with their data keys.
const loadKeysSQL = `
select p.name, p.id, p.erasing, k.wrapped from {schema}.partitions p left join {schema}.data_keys k on k.partition = p.id and k.id = 1
where p.name = any($1::bytea[])`

// createKeySQL adds a partition's data key, sealed with the key that the tables have.
const createKeySQL = `
insert into {schema}.data_keys (partition, id, wrapped)
select p.id, 1, $2::bytea
from (select p.id, p.erasing from {schema}.partitions p where p.name = $1 for update) p, {schema}.meta m
where not p.erasing and m.key_check = $3::bytea
on conflict (partition, id) do nothing`

// sealers returns the data keys of partitions that a batch writes to or has fences in,
// and makes missing ones. The sealer of one that is being erased has the partition's
// number and no key: the statement finds the mark of that partition, or none of that
// number.
func (s *Store) sealers(ctx context.Context, partitions []string) (map[string]*sealer, error) {
	out, missing := map[string]*sealer{}, [][]byte{}
	for _, partition := range partitions {
		if k := s.keys.cached(partition); k != nil {
			out[partition] = k
			continue
		}
		missing = append(missing, []byte(partition))
	}
	if len(missing) == 0 {
		return out, nil
	}
	err := s.repeat(ctx, func(ctx context.Context) error {
		found, err := s.loadKeys(ctx, missing)
		if err != nil {
			return err
		}
		if !complete(found, missing) {
			if err := s.createKeys(ctx, missing, found); err != nil {
				return err
			}
			if found, err = s.loadKeys(ctx, missing); err != nil {
				return err
			}
		}
		if !complete(found, missing) { // an erasure has ended meanwhile
			return errOvertaken
		}
		maps.Copy(out, found)
		return nil
	})
	return out, err
}

// complete reports whether each of the partitions has its key or is being erased.
func complete(found map[string]*sealer, names [][]byte) bool {
	return !slices.ContainsFunc(names, func(name []byte) bool { return !found[string(name)].settled() })
}

// settled reports whether a partition has its key or is being erased.
func (k *sealer) settled() bool { return k != nil && (k.key != nil || k.erasing) }

// loadKeys reads the partitions with their data keys, and keeps the keys.
func (s *Store) loadKeys(ctx context.Context, names [][]byte) (map[string]*sealer, error) {
	rows, err := s.pool.Query(ctx, s.sql.loadKeys, names)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := map[string]*sealer{}
	for rows.Next() {
		var name, wrapped []byte
		var k sealer
		if err := rows.Scan(&name, &k.id, &k.erasing, &wrapped); err != nil {
			return nil, err
		}
		found[string(name)] = &k
		if wrapped == nil || k.erasing {
			continue
		}
		unwrapped, err := s.keys.unwrap(string(name), k.id, wrapped)
		if err != nil {
			return nil, err
		}
		found[string(name)] = unwrapped
		s.keys.keep(unwrapped)
	}
	return found, rows.Err()
}

// createKeys makes the partitions that do not exist and the data keys that are missing.
func (s *Store) createKeys(ctx context.Context, names [][]byte, found map[string]*sealer) error {
	slices.SortFunc(names, bytes.Compare)
	if _, err := s.pool.Exec(ctx, s.sql.ensure, names); err != nil {
		return err
	}
	for _, name := range names {
		if found[string(name)].settled() {
			continue
		}
		wrapped, err := s.keys.newWrapped(string(name))
		if err != nil {
			return err
		}
		if _, err := s.pool.Exec(ctx, s.sql.createKey, name, wrapped, s.keyCheck); err != nil {
			return err
		}
	}
	return nil
}

// errKeyGone is the error of a value whose partition was erased after it was read.
var errKeyGone = errors.New("the data key is gone")

// maxErasures bounds how often a partition is read again that was erased meanwhile.
const maxErasures = 10

// unseal returns a value that was read from the partition with a number.
func (s *Store) unseal(ctx context.Context, partition string, id int64, dataKey int, key kv.Key, value []byte) ([]byte, error) {
	if dataKey == 0 {
		return value, nil
	}
	k := s.keys.cached(partition)
	if k == nil || k.id != id {
		found, err := s.loadKeys(ctx, [][]byte{[]byte(partition)})
		if err != nil {
			return nil, err
		}
		switch k = found[partition]; {
		case k == nil, k.id != id, k.erasing:
			return nil, errKeyGone
		case k.key == nil:
			return nil, fmt.Errorf("%w: a value's data key is missing; restore the database from a backup", kv.ErrCorrupt)
		}
	}
	return k.open(key, value)
}

// unsealed calls read again if a data key is gone, as in a partition that is erased while
// it is read: then there is nothing any more, or what was written since.
func unsealed(read func() error) error {
	for range maxErasures {
		if err := read(); !errors.Is(err, errKeyGone) {
			return err
		}
	}
	return errorf(kv.ErrUnavailable, "the partition is erased again and again")
}

// checkKey compares the store's key with the one of the tables.
func (s *Store) checkKey(ctx context.Context) error {
	err := s.repeat(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, s.sql.keyCheck).Scan(&s.keyCheck)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%w: the table meta is empty; restore the database from a backup", kv.ErrCorrupt)
	}
	if err != nil {
		return err
	}
	return s.keys.verify(s.keyCheck)
}

const keyCheckSQL = `select m.key_check from {schema}.meta m`
