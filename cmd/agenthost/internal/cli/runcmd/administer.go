package runcmd

import (
	"context"
	"io"

	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/keys"
)

// administer adds the routes of administrators to an API, and returns the credentials that
// they manage, which are closed with the project.
func (h *liveHost) administer(opts *httpapi.Options, credentials *keys.Options) *keys.Store {
	store := keys.New(h.app.Data().Driver, credentials)
	h.app.OnClose(store.Close)
	opts.Keys = store
	opts.Admin = &httpapi.Admin{Tenants: h.app.Tenants(), Erasures: h.app.Erasures(), Exports: h.app.Exports(store).Exporters()}
	if files := h.app.Data().Badger(); files != nil {
		opts.Admin.Backup = func(ctx context.Context, w io.Writer) error {
			_, err := files.Backup(ctx, w, nil)
			return err
		}
	}
	return store
}
