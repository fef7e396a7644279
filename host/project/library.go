package project

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/erasure"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/library"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
)

// Library returns the uploaded plugins of tenants and of the host. A project that was opened
// with Replaceable has loaded those that serve; any other loads them at the first call. The
// project closes the library. Codes are those of [library.Open], and failed_precondition
// after Close.
func (p *Project) Library(ctx context.Context) (*library.Library, error) {
	return p.plugins.library.get(ctx)
}

// lateLibrary is a library that is opened when it is first needed: opening it compiles the
// modules of all tenants, which most commands have no use for.
type lateLibrary struct {
	open func(context.Context) (*library.Library, error) // set when the store is open

	mu     sync.Mutex
	opened *library.Library
	closed bool
}

var _ erasure.Part = (*lateLibrary)(nil)

// openLibrary sets how the library is opened, and opens it if the project serves.
func (p *Project) openLibrary(ctx context.Context) error {
	l := &p.plugins.library
	l.open = func(ctx context.Context) (*library.Library, error) {
		trusts := func(ctx context.Context, tenant string, module []byte, signatures [][]byte) error {
			return p.tenants.settings().uploads.check(ctx, tenant, module, signatures)
		}
		return library.Open(ctx, p.data.Driver, p.plugins.runtime, &library.Options{Plans: p.tenants.store, Trusts: trusts, Logger: p.logger})
	}
	p.closers.add(l.close) // before the runtime
	if !p.live {
		return nil
	}
	_, err := l.get(ctx)
	return err
}

func (l *lateLibrary) get(ctx context.Context) (*library.Library, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.open == nil {
		return nil, host.Errorf(host.FailedPrecondition, "the uploaded plugins are closed")
	}
	if l.opened != nil {
		return l.opened, nil
	}
	var err error
	l.opened, err = l.open(ctx)
	return l.opened, err
}

// ifOpen returns the library; nil until it is opened.
func (l *lateLibrary) ifOpen() *library.Library {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.opened
}

func (l *lateLibrary) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.opened == nil {
		return nil
	}
	return l.opened.Close()
}

// owns reports whether a slot of the runtime is that of an uploaded plugin.
func (l *lateLibrary) owns(s *plugin.Slot) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.opened != nil && l.opened.Owns(s)
}

// Name implements [erasure.Part].
func (l *lateLibrary) Name() string { return "plugins" }

// Erase implements [erasure.Part].
func (l *lateLibrary) Erase(ctx context.Context, tenant string) error {
	lib, err := l.get(ctx)
	if err != nil {
		return err
	}
	return lib.Erase(ctx, tenant)
}

// Find implements [erasure.Part].
func (l *lateLibrary) Find(ctx context.Context, tenant string) (int, error) {
	lib, err := l.get(ctx)
	if err != nil {
		return 0, err
	}
	return lib.Find(ctx, tenant)
}

// slots returns the runtime's slots of the host that are not those of uploaded plugins.
func (s *pluginSet) slots() []*plugin.Slot {
	return slices.DeleteFunc(s.runtime.Slots(), func(slot *plugin.Slot) bool { return slot.Owner() != "" || s.library.owns(slot) })
}

// slot returns the host's slot of an id; nil without one, and for an uploaded plugin.
func (s *pluginSet) slot(id string) *plugin.Slot {
	if slot := s.runtime.Slot(id); slot != nil && !s.library.owns(slot) {
		return slot
	}
	return nil
}

// uploadedProvider is the name of the provider that offers an agent the tools of uploaded
// plugins.
const uploadedProvider = "uploaded"

// uploaded returns the provider of the uploaded plugins that an agent's tools name; nil if
// they name none.
func (b *builder) uploaded(at configfile.KeyPath, uses []string) (host.Provider, error) {
	opts := &library.ProviderOptions{Plugins: []string{}}
	all := false
	for i, use := range uses {
		id, ok := strings.CutPrefix(use, configfile.UploadedPrefix)
		switch {
		case !ok:
		case id == "":
			return nil, b.config.ErrorAt(at.To(i), "no uploaded plugin is named").WithHint("write %sPLUGIN, or %s* for all that the tenant of a run has", configfile.UploadedPrefix, configfile.UploadedPrefix)
		case id == "*":
			all = true
		default:
			opts.Plugins = append(opts.Plugins, id)
		}
	}
	if all {
		opts.Plugins = nil
	} else if len(opts.Plugins) == 0 {
		return nil, nil
	}
	return &providerWithOptions{library.NewProvider(uploadedProvider, b.plugins.library.get, opts), b}, nil
}

// providerWithOptions gives the tools of a provider the options of the configuration.
type providerWithOptions struct {
	host.Provider
	builder *builder
}

// ReadsOnly implements llm.Reader, as the provider does.
func (p *providerWithOptions) ReadsOnly() {}

// Provide implements [host.Provider].
func (p *providerWithOptions) Provide(ctx context.Context, req *host.ProvideRequest) (*host.Provided, error) {
	got, err := p.Provider.Provide(ctx, req)
	if got == nil || err != nil {
		return nil, err
	}
	got.Tools, err = p.builder.withOptions(got.Tools)
	return got, err
}
