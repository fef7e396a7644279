package threads

import (
	"context"

	"github.com/agenthost/agenthost/host/threads/internal/savedthread"
)

// StaleSave is the age from which leftovers of an interrupted save are removed.
const StaleSave = savedthread.StaleAfter

// SaveAgentThread keeps data, which [host.AgentThread.Serialize] returned, under a key
// of the caller's: an id as a thread has. It replaces the stored agent thread if that
// still has head, the one last loaded or saved, and fails with code conflict otherwise;
// an empty head guards nothing. It returns the new head. The old agent thread stays
// readable until the new one is whole. Code resource_exhausted beyond
// [host.MaxThreadBytes].
func (tn *Tenant) SaveAgentThread(ctx context.Context, key string, data []byte, head string) (string, error) {
	saved, err := tn.write.saved()
	if err != nil {
		return "", err
	}
	return saved.Save(ctx, key, data, head)
}

// saved returns the tenant's serialized agent threads.
func (w threadWriter) saved() (savedthread.Store, error) {
	return savedthread.In(w.read.part.Partition, w.store.now), w.read.err
}

// LoadAgentThread returns the bytes that SaveAgentThread stored under key, and
// their head. Code not_found if the key has none, data_loss if they differ from
// the saved ones.
func (tn *Tenant) LoadAgentThread(ctx context.Context, key string) (data []byte, head string, err error) {
	saved, err := tn.write.saved()
	if err != nil {
		return nil, "", err
	}
	return saved.Load(ctx, key)
}

// DeleteAgentThread removes the agent thread under key, and the leftovers there of
// saves that were interrupted more than [StaleSave] ago. A key without an agent thread
// is no error.
func (tn *Tenant) DeleteAgentThread(ctx context.Context, key string) error {
	saved, err := tn.write.saved()
	if err != nil {
		return err
	}
	return saved.Delete(ctx, key)
}

// AgentThreads returns the keys of a tenant's agent threads behind the key after,
// in order of their bytes; "" begins. limit is [DefaultListLimit] below 1 and at
// most [MaxListLimit].
func (tn *Tenant) AgentThreads(ctx context.Context, after string, limit int) ([]string, error) {
	saved, err := tn.write.saved()
	if err != nil {
		return nil, err
	}
	if limit < 1 {
		limit = DefaultListLimit
	}
	return saved.List(ctx, after, min(limit, MaxListLimit))
}
