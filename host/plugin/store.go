package plugin

import (
	"context"
	"time"

	"github.com/agenthost/agenthost/host"
)

// Store keeps the items of plugins between calls: values by key, for each owner
// apart. Implementations are safe for concurrent use; host/plugin/pluginkv has one
// for every kv.Driver. plugintest.TestStore checks an implementation. Keys are valid
// UTF-8 of 1 to 512 bytes, values have at most 256 KiB. Slices belong to the caller on
// both sides.
//
// An owner's tenant is one that [host.ValidateTenant] takes: Put refuses another with
// code invalid_argument, so that no two owners have the same items.
//
// Errors have code not_found, conflict, resource_exhausted (the quota),
// unavailable (the store is down; retryable), canceled and deadline_exceeded.
// Of an error with another code a guest learns only that the store failed.
type Store interface {
	// Get returns the item at key; code not_found if it does not exist or
	// has expired.
	Get(ctx context.Context, owner Owner, key string) (Item, error)

	// Put writes an item and returns its revision, which is greater than every
	// one that the key had before. Code conflict if opts.At says otherwise,
	// resource_exhausted if the owner's items would have more than opts.Quota
	// bytes by [ItemBytes].
	Put(ctx context.Context, owner Owner, key string, value []byte, opts PutOptions) (revision int64, err error)

	// Delete removes an item, if it is at revision *at or at is nil; one that is
	// not there is no error unless at says that it is.
	Delete(ctx context.Context, owner Owner, key string, at *int64) error

	// List returns items whose keys have the prefix and come after the key After,
	// in the order of their bytes, at most Limit of them and at most MaxBytes by
	// ItemBytes, but at least one if any follows. more says that others follow.
	List(ctx context.Context, owner Owner, opts ListOptions) (items []Item, more bool, err error)
}

// Eraser is an optional interface of a [Store] whose items the operator can erase,
// when a customer leaves or a plugin is removed. pluginkv.Store is one.
// plugintest.TestStore checks those that are.
//
// Erasing removes items and whatever else is stored because of them, expired ones
// too; a quota has all of its room again, and revisions still grow. Without stored
// items Erase does nothing. An error or the end of the process may interrupt it at any
// point: the remaining items are whole, and erasing again removes them. Items written
// meanwhile may stay, so the plugin is unloaded, or taken from the tenant, before.
type Eraser interface {
	// Erase removes the items of one plugin for one tenant. With an error, it returns
	// the count removed until then.
	Erase(ctx context.Context, owner Owner) (Erased, error)

	// EraseTenant removes the items of all plugins for a tenant.
	EraseTenant(ctx context.Context, tenant string) (Erased, error)
}

// Erased counts the items that an [Eraser] has removed.
type Erased struct {
	Items int   `json:"items"`
	Bytes int64 `json:"bytes"` // by [ItemBytes]
}

// Owner says whose items are meant: one tenant's, of one plugin by the id that it
// was loaded under.
type Owner struct{ Tenant, Plugin string }

// Item is a value in a [Store].
type Item struct {
	Key      string
	Value    []byte // nil in a list without values
	Revision int64  // from 1
}

// PutOptions are the conditions of [Store].Put.
type PutOptions struct {
	At      *int64    // the revision that the key must have; 0: it must be absent
	Expires time.Time // zero: never
	Quota   int64
}

// ListOptions say what [Store].List returns.
type ListOptions struct {
	Prefix, After string
	Limit         int
	MaxBytes      int
	Values        bool
}

// itemOverhead is the size of an item beyond its key and value.
const itemOverhead = 64

// ItemBytes is the size of an item against a quota.
func ItemBytes(key string, value []byte) int64 {
	return int64(len(key)) + int64(len(value)) + itemOverhead
}

// QuotaError is the error for an owner whose items would take more than quota
// bytes. Stores return it.
func QuotaError(quota int64) error {
	return host.Errorf(host.ResourceExhausted, "the items of this plugin and tenant would take more than the limit KVBytes of %d", quota).
		WithHint("delete what is no longer needed, or raise the limit")
}

// RevisionError is the error for a key that is not at the revision asked for.
// Stores return it.
func RevisionError(key string, at, found int64) error {
	return host.Errorf(host.Conflict, "the key %q is at revision %d, not %d", key, found, at).
		WithHint("read it again")
}
