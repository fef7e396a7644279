package project

import (
	"context"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
)

// lateStore is the plugins' store while the data directory is still being opened: its
// callers wait until the directory is open.
type lateStore struct {
	ready chan struct{} // closed when store is set, or opening has failed
	store plugin.Store
}

var _ plugin.Store = (*lateStore)(nil)

func newLateStore() *lateStore { return &lateStore{ready: make(chan struct{})} }

// set ends the wait; nil means that the store could not be opened.
func (l *lateStore) set(s plugin.Store) {
	l.store = s
	close(l.ready)
}

func (l *lateStore) wait(ctx context.Context) (plugin.Store, error) {
	select {
	case <-l.ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if l.store == nil {
		return nil, host.Errorf(host.Unavailable, "the data directory could not be opened")
	}
	return l.store, nil
}

// Get implements [plugin.Store].
func (l *lateStore) Get(ctx context.Context, owner plugin.Owner, key string) (plugin.Item, error) {
	s, err := l.wait(ctx)
	if err != nil {
		return plugin.Item{}, err
	}
	return s.Get(ctx, owner, key)
}

// Put implements [plugin.Store].
func (l *lateStore) Put(ctx context.Context, owner plugin.Owner, key string, value []byte, opts plugin.PutOptions) (int64, error) {
	s, err := l.wait(ctx)
	if err != nil {
		return 0, err
	}
	return s.Put(ctx, owner, key, value, opts)
}

// Delete implements [plugin.Store].
func (l *lateStore) Delete(ctx context.Context, owner plugin.Owner, key string, at *int64) error {
	s, err := l.wait(ctx)
	if err != nil {
		return err
	}
	return s.Delete(ctx, owner, key, at)
}

// List implements [plugin.Store].
func (l *lateStore) List(ctx context.Context, owner plugin.Owner, opts plugin.ListOptions) ([]plugin.Item, bool, error) {
	s, err := l.wait(ctx)
	if err != nil {
		return nil, false, err
	}
	return s.List(ctx, owner, opts)
}
