package pluginkv

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
)

// The stored entries of an owner, in its tenant's partition:
//
//	plugin/ID/usage          usageRecord, as long as there are items
//	plugin/ID/item/ + key    an item: format, when it expires, its value
//	plugin/ID/time/MS/ + key nothing; for each item that expires, in that order
//
// An item's key is the end of its entry's key, unescaped, so that a prefix of one is a
// prefix of the other. Each transaction that changes an owner's items also changes the
// owner's usage, under the condition that the usage is still at the revision read.
const (
	rootKey  = "plugin"
	usageKey = "usage"
	itemKey  = "item"
	timeKey  = "time"
)

// usageFormat is the version of usageRecord.
const usageFormat = 1

// usageRecord sums up an owner's items, including expired ones.
type usageRecord struct {
	V     int   `json:"v"`
	Bytes int64 `json:"bytes"` // by plugin.ItemBytes
	Items int   `json:"items"`
	Timed int   `json:"timed"` // items that expire
}

// place is the partition and the key prefixes of an owner's entries.
type place struct {
	partition          string
	usage, items, time kv.Key
}

const (
	maxKeyBytes = 512 // of a plugin's key
	timeBytes   = 9   // of a time in a key
)

func placeOf(owner plugin.Owner) (place, error) {
	p := place{partition: owner.Tenant}
	if err := host.ValidateTenant(owner.Tenant); err != nil {
		return place{}, err
	}
	root := kv.NewKey(rootKey, owner.Plugin)
	p.usage, p.items, p.time = root.With(usageKey), root.With(itemKey), root.With(timeKey)
	if len(p.time)+timeBytes+maxKeyBytes > kv.MaxKeyBytes {
		return place{}, host.Errorf(host.InvalidArgument, "plugin %.40q cannot keep keys: its id is too long", owner.Plugin).
			WithHint("a plugin's id has about %d bytes at most", kv.MaxKeyBytes/8)
	}
	return p, nil
}

// item returns the entry key of an item, or the prefix of a range of items.
func (p *place) item(key string) kv.Key { return p.items + kv.Key(key) }

// key returns an item's key from its entry key.
func (p *place) key(at kv.Key) string {
	rest, _ := at.CutPrefix(p.items)
	return string(rest)
}

// timed returns the entry key that indexes an item by its time of expiry.
func (p *place) timed(ms int64, key string) kv.Key {
	return p.time.WithUint(uint64(ms)) + kv.Key(key)
}

// cutTimed splits such an entry key.
func (p *place) cutTimed(at kv.Key) (ms int64, key string, ok bool) {
	rest, ok := at.CutPrefix(p.time)
	n, rest, isTime := rest.CutUint()
	return int64(n), string(rest), ok && isTime && n <= math.MaxInt64
}

// itemFormat is the first byte of an item. It differs from all formats of
// [kv.EncodeRecord].
const itemFormat = 0x10

// itemHead is the number of bytes before an item's value: the format, and the time of
// expiry in milliseconds since 1970, 0 for never.
const itemHead = 1 + 8

// storedItem is an item that was read.
type storedItem struct {
	value    []byte
	expires  int64 // in milliseconds since 1970; 0: never
	revision uint64
}

func (it *storedItem) live(now time.Time) bool {
	return it.expires == 0 || now.UnixMilli() < it.expires
}

func readItem(e kv.Entry) (*storedItem, error) {
	if len(e.Value) < itemHead {
		return nil, host.Errorf(host.DataLoss, "a plugin's item is cut off after %d bytes", len(e.Value)).WithHint("restore it from a backup")
	}
	if e.Value[0] != itemFormat {
		return nil, host.Errorf(host.FailedPrecondition, "a plugin's item has format %d, which this version does not know", e.Value[0]).
			WithHint("open it with the version that wrote it, or a newer one; nothing was changed")
	}
	expires := int64(binary.BigEndian.Uint64(e.Value[1:]))
	return &storedItem{e.Value[itemHead:], expires, e.Revision}, nil
}

func encodeItem(value []byte, expires int64) []byte {
	b := binary.BigEndian.AppendUint64(append(make([]byte, 0, itemHead+len(value)), itemFormat), uint64(expires))
	return append(b, value...)
}

// millis returns the stored form of a time: 0 for the zero time, otherwise at least 1.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(t.UnixMilli(), 1)
}
