package plugin

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/instrument"
)

// How calls and requests of plugins call the instrument of the host whose run they belong
// to. Outside of runs there is none.

// serveBy is [Plugin.serve] of p, around which the instrument is called.
func (r *callRequest) serveBy(ctx context.Context, p *Plugin, cost *host.Cost) (output []byte, guestErr, begun bool, err error) {
	g := instrument.FromContext(ctx)
	if g == nil {
		return p.serve(ctx, r, cost)
	}
	op := &instrument.Sandbox{Scope: host.Scope{Tenant: r.tenant}, Plugin: p.id, Owned: len(p.bindings.only) > 0, Digest: p.Digest(), Export: p.module.exportName(r.export)}
	if p.manifest != nil {
		op.Version = p.manifest.Version
	}
	_, _ = instrument.Do(ctx, g, op, func(ctx context.Context) (struct{}, error) {
		output, guestErr, begun, err = p.serve(ctx, r, cost)
		op.Cost, op.GuestError = *cost, guestErr
		if err == nil && guestErr { // the caller makes an error of it
			return struct{}{}, r.failed
		}
		return struct{}{}, err
	})
	return output, guestErr, begun, err
}

// fetchOutgoing sends a request of a guest.
func (b *binding) fetchOutgoing(ctx context.Context, req *egress.Request) (*egress.Response, error) {
	g, fetcher := instrument.FromContext(ctx), b.plugin.runtime.fetcher
	if g == nil {
		return fetcher.Fetch(ctx, req)
	}
	op := &instrument.HTTP{Scope: host.Scope{Tenant: req.Tenant}, Plugin: req.Plugin, Owned: len(b.plugin.bindings.only) > 0, Method: req.Method, Body: len(req.Body)}
	if u, err := url.Parse(req.URL); err == nil {
		op.Scheme, op.Host = u.Scheme, u.Host
	}
	return instrument.Do(ctx, g, op, func(ctx context.Context) (*egress.Response, error) {
		addHeader(req, op.Header)
		resp, err := fetcher.Fetch(ctx, req)
		if err == nil {
			op.Status, op.Received, op.Redirects = resp.Status, len(resp.Body), resp.Redirects
		}
		return resp, err
	})
}

// addHeader adds the headers of an instrument to a request that has none of their names.
func addHeader(req *egress.Request, header http.Header) {
	for name := range header {
		if !slices.ContainsFunc(req.Headers, func(h egress.Header) bool { return strings.EqualFold(h.Name, name) }) {
			req.Headers = append(req.Headers, egress.Header{Name: name, Value: header.Get(name)})
		}
	}
}
