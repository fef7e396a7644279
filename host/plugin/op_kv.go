package plugin

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
	"github.com/agenthost/agenthost/host/plugin/internal/rawbytes"
)

// The bounds of plugins' items; the quota is a limit.
const (
	maxKVKeyBytes   = 512
	maxKVValueBytes = 256 << 10
	defaultKVList   = 100
	maxKVList       = 1000
	maxKVLife       = 10 * 365 * 24 * time.Hour
)

// mayKV fails unless the plugin may read, or write, its items.
func (b *binding) mayKV(access Access) error {
	if !b.rights().granted.KV.Allows(access) {
		return b.denied("kv="+string(access), map[Access]string{Read: "read its keys", Write: "write keys"}[access])
	}
	if b.store() == nil {
		return host.Errorf(host.Unimplemented, "this host keeps no keys of plugins").WithHint("give the runtime the option Store")
	}
	if err := host.ValidateTenant(b.account.id); err != nil {
		return host.Errorf(host.FailedPrecondition, "keys are kept for a tenant, and this call is nobody's: %w", err)
	}
	b.usage.note(func(p *Permissions) { p.KV = p.KV.Max(access) })
	return nil
}

func (b *binding) owner() Owner { return Owner{Tenant: b.account.id, Plugin: b.plugin.id} }

func (b *binding) store() Store { return b.plugin.runtime.opts.Store }

func checkKVKey(op, key string) error {
	if key == "" || len(key) > maxKVKeyBytes || !utf8.ValidString(key) {
		return host.Errorf(host.InvalidArgument, "request of %s: a key has 1 to %d bytes of UTF-8, not %d", op, maxKVKeyBytes, len(key))
	}
	return nil
}

func (b *binding) kvGet(ctx context.Context, req []byte) ([]byte, error) {
	if err := b.mayKV(Read); err != nil {
		return nil, err
	}
	var in struct{ Key string }
	if err := abi.ReadRequest("kv.get", req, &in); err != nil {
		return nil, err
	}
	if err := checkKVKey("kv.get", in.Key); err != nil {
		return nil, err
	}
	var it Item
	var err error
	callmeter.WhileBlocked(ctx, func(ctx context.Context) { it, err = b.store().Get(ctx, b.owner(), in.Key) })
	if err != nil {
		return nil, b.storeError("kv.get", err)
	}
	payload := rawbytes.Of(ctx)
	out := abi.NewObject(payload.Room(len(it.Value)) + abi.EnvelopeSize)
	payload.Write(out, "value", it.Value)
	out.Int("revision", it.Revision)
	return out.End(), nil
}

func (b *binding) kvPut(ctx context.Context, req []byte) ([]byte, error) {
	if err := b.mayKV(Write); err != nil {
		return nil, err
	}
	var in struct {
		Key      string
		Value    *rawbytes.Field
		Revision *int64
		TTL      int64 `json:"ttl_ms"`
	}
	if err := abi.ReadRequest("kv.put", req, &in); err != nil {
		return nil, err
	}
	if err := rawbytes.Of(ctx).Take("kv.put", in.Value); err != nil {
		return nil, err
	}
	if err := checkKVKey("kv.put", in.Key); err != nil {
		return nil, err
	}
	switch {
	case in.Value == nil:
		return nil, host.Errorf(host.InvalidArgument, "request of kv.put: it has no value")
	case len(in.Value.Bytes) > maxKVValueBytes:
		return nil, host.Errorf(host.ResourceExhausted, "request of kv.put: the value is %d bytes, more than %d", len(in.Value.Bytes), maxKVValueBytes).
			WithHint("keep it in pieces")
	case in.TTL < 0 || in.TTL > maxKVLife.Milliseconds():
		return nil, host.Errorf(host.InvalidArgument, "request of kv.put: ttl_ms is %d", in.TTL)
	}
	opts := PutOptions{At: in.Revision, Quota: b.rights().limits.KVBytes}
	if in.TTL > 0 {
		opts.Expires = time.Now().Add(time.Duration(in.TTL) * time.Millisecond)
	}
	var revision int64
	var err error
	callmeter.WhileBlocked(ctx, func(ctx context.Context) { revision, err = b.store().Put(ctx, b.owner(), in.Key, in.Value.Bytes, opts) })
	if err != nil {
		return nil, b.storeError("kv.put", err)
	}
	out := abi.NewObject(64)
	out.Int("revision", revision)
	return out.End(), nil
}

func (b *binding) kvDelete(ctx context.Context, req []byte) ([]byte, error) {
	if err := b.mayKV(Write); err != nil {
		return nil, err
	}
	var in struct {
		Key      string
		Revision *int64
	}
	if err := abi.ReadRequest("kv.delete", req, &in); err != nil {
		return nil, err
	}
	if err := checkKVKey("kv.delete", in.Key); err != nil {
		return nil, err
	}
	var err error
	callmeter.WhileBlocked(ctx, func(ctx context.Context) { err = b.store().Delete(ctx, b.owner(), in.Key, in.Revision) })
	if err != nil {
		return nil, b.storeError("kv.delete", err)
	}
	return []byte("{}"), nil
}

func (b *binding) kvList(ctx context.Context, req []byte) ([]byte, error) {
	if err := b.mayKV(Read); err != nil {
		return nil, err
	}
	var in struct {
		Prefix, After string
		Limit         int
		Values        bool
	}
	if err := abi.ReadRequest("kv.list", req, &in); err != nil {
		return nil, err
	}
	if in.Limit < 0 || in.Limit > maxKVList || len(in.Prefix) > maxKVKeyBytes || len(in.After) > maxKVKeyBytes {
		return nil, host.Errorf(host.InvalidArgument, "request of kv.list: limit is at most %d, prefix and after have at most %d bytes", maxKVList, maxKVKeyBytes)
	}
	if in.Limit == 0 {
		in.Limit = defaultKVList
	}
	opts := ListOptions{
		Prefix: in.Prefix, After: in.After, Limit: in.Limit, Values: in.Values,
		MaxBytes: b.rights().limits.ResponseBytes / 2, // as JSON it is more
	}
	var items []Item
	var more bool
	var err error
	callmeter.WhileBlocked(ctx, func(ctx context.Context) { items, more, err = b.store().List(ctx, b.owner(), opts) })
	if err != nil {
		return nil, b.storeError("kv.list", err)
	}
	return kvPage(items, more, in.Values, rawbytes.Of(ctx)), nil
}

func kvPage(items []Item, more, values bool, payload *rawbytes.Payload) []byte {
	out := abi.NewObject(abi.EnvelopeSize)
	out.Key("entries")
	out.B = append(out.B, '[')
	for i, it := range items {
		if i > 0 {
			out.B = append(out.B, ',')
		}
		out.B = append(out.B, '{')
		out.Text("key", it.Key)
		out.Int("revision", it.Revision)
		if values {
			payload.Write(out, "value", it.Value)
		}
		out.B = append(out.B, '}')
	}
	out.B = append(out.B, ']')
	if more && len(items) > 0 {
		out.Text("next", items[len(items)-1].Key)
	}
	return out.End()
}

// storeError returns a store's error for the guest: with its words if they are about
// the request, and otherwise only that the store failed.
func (b *binding) storeError(op string, err error) error {
	switch host.CodeOf(err) {
	case host.NotFound, host.Conflict, host.ResourceExhausted, host.Canceled, host.DeadlineExceeded:
		return err
	}
	b.plugin.runtime.opts.Logger.Error("plugin store failed", "plugin", b.plugin.id, "tenant", b.account.id, "operation", op, "error", err)
	if host.CodeOf(err) == host.Unavailable {
		return host.Errorf(host.Unavailable, "%s: the store is not available", op)
	}
	return host.Errorf(host.Internal, "%s: the store failed", op)
}
