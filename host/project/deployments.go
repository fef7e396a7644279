package project

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/modulekv"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
	"github.com/agenthost/agenthost/internal/grantwords"
)

// The bounds of what hosts share of plugins.
const (
	// keptModules is how many modules of a plugin stay in the store: the one that serves,
	// and those that a host may roll back to.
	keptModules = 4
	// deploymentRetry is the pause before changes that could not be taken are tried again.
	deploymentRetry = time.Second
	// unloadTimeout is how long an unload on behalf of another host waits for calls.
	unloadTimeout = time.Second
)

// The versions, grants and tenants that all hosts of a database use:
//
//	deployment/plugin/<id>              deployment
//	deployment/module/<digest>/<n>      part n of a module: see package modulekv
//	deployment/configuration            sharedConfiguration
const (
	deploymentPartition = "agenthost/deployments"
	deploymentsTopic    = "deployments"
)

var (
	deploymentKeys    = kv.NewKey("deployment", "plugin")
	moduleKeys        = kv.NewKey("deployment", "module")
	configurationKeys = kv.NewKey("deployment", "configuration")
)

// deployment is the version of a plugin that serves on all hosts.
type deployment struct {
	V       int      `json:"v"`
	Digest  string   `json:"digest,omitempty"`  // of the module; empty if the plugin is unloaded
	Modules []string `json:"modules,omitempty"` // the digests that are in the store, the oldest first
	Base    string   `json:"base,omitempty"`    // the digest of the configuration's module when hosts began to share the plugin
	Grants  []string `json:"grants,omitempty"`  // those given with a load; the configuration's otherwise
	Granted bool     `json:"granted,omitempty"` // a load gave grants
}

// sharedConfiguration is the text of which the grants, tenants, budgets and prices are used by all
// hosts.
type sharedConfiguration struct {
	V    int    `json:"v"`
	Text []byte `json:"text"`
	Host string `json:"host"` // that wrote it
}

// deployments are the plugins, grants and tenants that this host shares with the others of
// its database. The Reloader's lock guards it.
type deployments struct {
	driver  kv.Driver
	host    string            // the id of this member
	taken   map[string]uint64 // the revisions that this host uses, by plugin
	config  uint64            // the revision of the configuration that this host uses
	base    map[string]string // the digests of the configuration's modules
	loaded  map[string][]byte // these modules, until they are stored
	changed chan struct{}
}

// Follow shares the plugins of this host with the other hosts of its database until stop: a
// version, a rollback, an unload, grants and tenants that change on one host are used by all
// of them, within a second and the time that a module takes to compile. Without a database
// it does nothing.
//
// The store has the state that counts. A host that starts while others live takes theirs,
// and says in which parts its own configuration differs; one that starts alone uses its
// own configuration, with the versions that were loaded since if the configured module is
// the same as then. Codes are those of the store.
func (r *Reloader) Follow(ctx context.Context) (stop func(), err error) {
	p := r.project
	m := p.hosts.member
	loaded := p.plugins.takeLoaded()
	if m == nil {
		return func() {}, nil
	}
	d := &deployments{driver: kv.Checked(p.data.Driver), host: m.ID(), taken: map[string]uint64{}, base: map[string]string{}, loaded: loaded, changed: make(chan struct{}, 1)}
	for _, s := range p.plugins.slots() {
		if v := s.Current(); v != nil {
			d.base[s.ID()] = v.Digest()
		}
	}
	err = m.Subscribe(ctx, deploymentsTopic, func() {
		select {
		case d.changed <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return nil, err
	}
	if _, err := m.Observe(ctx); err != nil {
		return nil, err
	}
	r.changing.Lock()
	defer r.changing.Unlock()
	r.shared = d
	if err := r.joinDeployments(ctx, len(m.Peers()) == 0); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { r.follow(ctx, d) })
	return func() {
		cancel()
		running.Wait()
	}, nil
}

// joinDeployments makes this host and the store agree at the host's start.
func (r *Reloader) joinDeployments(ctx context.Context, alone bool) error {
	d := r.shared
	for _, peer := range r.project.hosts.member.Peers() {
		if own := r.project.hosts.version; peer.Version != "" && peer.Version != own {
			r.say("host %s runs version %s of the program, and this one %s: use one version on all hosts", peer.ID, peer.Version, own)
		}
	}
	if err := r.joinConfiguration(ctx, alone); err != nil {
		return err
	}
	for id, base := range d.base {
		rec, revision, err := d.read(ctx, id)
		if err != nil {
			return err
		}
		same := revision > 0 && rec.Base == base
		if revision > 0 && !same && !alone {
			r.say("plugin %q: this host's configuration has the version with digest %s, and the other hosts' %s; theirs, %s, is used", id, short(base), short(rec.Base), short(rec.Digest))
		}
		if same || revision > 0 && !alone {
			continue // adopt takes it
		}
		rec = deployment{Digest: base, Base: base, Modules: rec.Modules}
		if err := d.write(ctx, id, rec, d.loaded[id]); err != nil {
			return err
		}
	}
	d.loaded = nil
	if err := r.adopt(ctx); err != nil {
		return err
	}
	return r.project.hosts.member.Announce(ctx, deploymentsTopic)
}

// joinConfiguration writes this host's configuration, or says how it differs from that of
// the hosts that live.
func (r *Reloader) joinConfiguration(ctx context.Context, alone bool) error {
	d, own := r.shared, r.project.config
	rec, revision, err := d.configuration(ctx)
	switch {
	case err != nil:
		return err
	case revision > 0 && bytes.Equal(rec.Text, own.Text):
		d.config = revision
		return nil
	case revision == 0 || alone:
		return d.writeConfiguration(ctx, own.Text)
	}
	theirs, err := configfile.Parse(own.Fsys, own.Name, rec.Text)
	if err != nil {
		return host.Errorf(host.FailedPrecondition, "the configuration of host %s, which shares the database, cannot be read by this version of the program: %w", rec.Host, err).
			WithHint("use one version and one configuration on all hosts")
	}
	if parts := differences(own, theirs); len(parts) > 0 {
		r.say("%s differs from the configuration of host %s in: %s. Grants, tenants, budgets and prices are taken from there; the rest is this host's: use one configuration on all hosts", own.Name, rec.Host, strings.Join(parts, ", "))
	}
	return nil // adopt takes it
}

// differences returns the names of the top-level parts in which two configurations differ,
// sorted.
func differences(a, b *configfile.Config) (parts []string) {
	x, y := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range x.NumField() {
		name := x.Type().Field(i).Tag.Get("yaml")
		if name != "" && !reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			parts = append(parts, name)
		}
	}
	slices.Sort(parts)
	return parts
}

func short(digest string) string { return cmp.Or(digest[:min(len(digest), 12)], "none") }

// follow takes the changes of other hosts until ctx ends.
func (r *Reloader) follow(ctx context.Context, d *deployments) {
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.changed:
		case <-again:
		}
		again = nil
		r.changing.Lock()
		err := r.adopt(ctx)
		r.changing.Unlock()
		if err != nil && ctx.Err() == nil {
			r.say("a change of another host is not taken yet: %s", err)
			again = time.After(deploymentRetry)
		}
	}
}

// adopt takes the stored grants and versions that this host does not use yet. r.changing is
// held.
func (r *Reloader) adopt(ctx context.Context) error {
	d := r.shared
	failed := []error{r.adoptConfiguration(ctx)}
	for e, err := range kv.All(ctx, d.driver, deploymentPartition, kv.Range{Prefix: deploymentKeys, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return err
		}
		rest, _ := e.Key.CutPrefix(deploymentKeys)
		id, _, ok := rest.CutString()
		var rec deployment
		if !ok || d.taken[id] == e.Revision {
			continue
		}
		err := kv.DecodeRecord(e.Value, &rec)
		if err == nil {
			err = r.deploy(ctx, id, &rec)
		}
		if err != nil {
			failed = append(failed, ofPlugin(id, err))
			continue
		}
		d.taken[id] = e.Revision
	}
	return errors.Join(failed...)
}

func (r *Reloader) adoptConfiguration(ctx context.Context) error {
	d := r.shared
	rec, revision, err := d.configuration(ctx)
	if err != nil || revision == d.config {
		return err
	}
	next, err := configfile.Parse(r.project.config.Fsys, r.project.config.Name, rec.Text)
	if err != nil {
		return host.Errorf(host.CodeOf(err), "the configuration of host %s: %w", rec.Host, err)
	}
	if err := r.regrant(ctx, next); err != nil {
		return err
	}
	d.config = revision
	r.say("grants, tenants, prices and MCP servers of host %s are taken", rec.Host)
	return nil
}

// deploy makes a plugin serve as a record says.
func (r *Reloader) deploy(ctx context.Context, id string, rec *deployment) error {
	s := r.project.plugins.slot(id)
	var granted *plugin.Permissions
	if rec.Granted {
		p, err := grantwords.Parse(rec.Grants)
		if err != nil {
			return err
		}
		granted = &p
	}
	switch {
	case s == nil && rec.Digest == "":
		return nil
	case s == nil:
		return r.deployNew(ctx, id, rec, granted)
	case granted != nil:
		if err := s.Grant(ctx, *granted); err != nil && host.CodeOf(err) != host.PermissionDenied {
			return err
		}
	}
	current := s.Current()
	switch {
	case rec.Digest == "":
		ctx, cancel := context.WithTimeout(ctx, unloadTimeout)
		defer cancel()
		if err := s.Unload(ctx); err != nil && host.CodeOf(err) != host.DeadlineExceeded { // its calls end later
			return err
		}
		r.say("%s: unloaded by another host", id)
		return nil
	case current != nil && current.Digest() == rec.Digest:
		return nil
	}
	v, err := r.replaceBy(ctx, s, rec.Digest)
	if err != nil {
		return err
	}
	r.recordSource(id, v.Number, r.sourcePaths()[id])
	r.rebuildTargets()
	r.say("%s: version %d serves, as on another host", id, v.Number)
	return nil
}

// deployNew makes a plugin that the configuration does not have.
func (r *Reloader) deployNew(ctx context.Context, id string, rec *deployment, granted *plugin.Permissions) error {
	wasm, err := r.shared.modules().Get(ctx, rec.Digest)
	if err != nil {
		return err
	}
	opts := &plugin.SlotOptions{}
	if granted != nil {
		opts.Granted = *granted
	}
	s, err := r.project.plugins.runtime.NewSlot(ctx, id, wasm, opts)
	if err != nil {
		return err
	}
	r.project.plugins.parts.set(id, s)
	r.recordSource(id, 1, "")
	r.rebuildTargets()
	r.say("%s: loaded by another host", id)
	return nil
}

// replaceBy makes the module with a digest serve: one that the slot keeps, or that of the
// store. Another host has accepted it, whatever it asks for.
func (r *Reloader) replaceBy(ctx context.Context, s *plugin.Slot, digest string) (plugin.VersionState, error) {
	state := s.State()
	for _, v := range slices.Backward(state.Versions) {
		if v.Phase == plugin.Kept {
			if v.Digest == digest {
				return s.Rollback(ctx)
			}
			break
		}
	}
	wasm, err := r.shared.modules().Get(ctx, digest)
	if err != nil {
		return plugin.VersionState{}, err
	}
	v, err := s.Replace(ctx, wasm)
	if host.CodeOf(err) == host.PermissionDenied && v.Phase == plugin.Held {
		return s.Accept(ctx)
	}
	return v, err
}

// share makes the version of a plugin that serves here, or the end of the plugin, that of all
// hosts. wasm is nil for a version that was shared before. r.changing is held.
func (r *Reloader) share(ctx context.Context, s *plugin.Slot, wasm []byte, granted *plugin.Permissions) error {
	d := r.shared
	if d == nil {
		return nil
	}
	id := s.ID()
	rec, _, err := d.read(ctx, id)
	if err == nil {
		rec.Digest = ""
		if v := s.Current(); v != nil {
			rec.Digest = v.Digest()
		}
		if granted != nil {
			rec.Granted, rec.Grants = true, granted.Words()
		}
		err = d.write(ctx, id, rec, wasm)
	}
	return r.announceDeployments(ctx, err, "plugin "+id)
}

// shareConfiguration makes the grants, tenants, budgets and prices of this host's configuration those
// of all hosts. Grants given with earlier loads of its plugins end. r.changing is held.
func (r *Reloader) shareConfiguration(ctx context.Context, next *configfile.Config) error {
	d := r.shared
	if d == nil {
		return nil
	}
	err := d.writeConfiguration(ctx, next.Text)
	for _, id := range slices.Sorted(maps.Keys(next.Plugins)) {
		if err != nil {
			break
		}
		var rec deployment
		if rec, _, err = d.read(ctx, id); err == nil && rec.Granted {
			rec.Granted, rec.Grants = false, nil
			err = d.write(ctx, id, rec, nil)
		}
	}
	return r.announceDeployments(ctx, err, "the configuration")
}

func (r *Reloader) announceDeployments(ctx context.Context, err error, what string) error {
	if err == nil {
		err = r.project.hosts.member.Announce(ctx, deploymentsTopic)
	}
	if err != nil {
		return host.Errorf(fault.CodeOf(err), "%s is changed on this host, and other hosts do not know it: %w", what, err).WithHint("make the change again when the database answers")
	}
	return nil
}

// read returns the record of a plugin, at revision 0 if the store has no record.
func (d *deployments) read(ctx context.Context, id string) (rec deployment, revision uint64, err error) {
	revision, err = d.get(ctx, deploymentKeys.With(id), &rec)
	return rec, revision, err
}

func (d *deployments) configuration(ctx context.Context) (rec sharedConfiguration, revision uint64, err error) {
	revision, err = d.get(ctx, configurationKeys, &rec)
	return rec, revision, err
}

func (d *deployments) get(ctx context.Context, key kv.Key, into any) (revision uint64, err error) {
	e, err := d.driver.Get(ctx, deploymentPartition, key)
	if errors.Is(err, kv.ErrNotFound) {
		return 0, nil
	}
	if err == nil {
		err = kv.DecodeRecord(e.Value, into)
	}
	return e.Revision, err
}

func (d *deployments) put(ctx context.Context, key kv.Key, rec any) (revision uint64, err error) {
	raw, err := kv.EncodeRecord(rec)
	if err != nil {
		return 0, err
	}
	return kv.Apply(ctx, d.driver, kv.Tx{Partition: deploymentPartition, Quiet: true, Writes: []kv.Write{kv.Put(key, raw)}})
}

// write stores a record after its module, and removes modules that no host needs.
func (d *deployments) write(ctx context.Context, id string, rec deployment, wasm []byte) (err error) {
	rec.V = 1
	if rec.Digest != "" && wasm != nil {
		if err := d.modules().Put(ctx, rec.Digest, wasm); err != nil {
			return err
		}
		rec.Modules = append(slices.DeleteFunc(slices.Clone(rec.Modules), func(digest string) bool { return digest == rec.Digest }), rec.Digest)
	}
	var old []string
	if n := len(rec.Modules) - keptModules; n > 0 {
		old, rec.Modules = rec.Modules[:n], rec.Modules[n:]
	}
	if d.taken[id], err = d.put(ctx, deploymentKeys.With(id), &rec); err != nil {
		return err
	}
	return d.removeModules(ctx, old)
}

func (d *deployments) writeConfiguration(ctx context.Context, text []byte) (err error) {
	d.config, err = d.put(ctx, configurationKeys, &sharedConfiguration{V: 1, Text: text, Host: d.host})
	return err
}

// modules are the modules in the store.
func (d *deployments) modules() modulekv.Modules {
	return modulekv.Modules{Driver: d.driver, Partition: deploymentPartition, Keys: moduleKeys}
}

// removeModules removes modules that no record names.
func (d *deployments) removeModules(ctx context.Context, old []string) error {
	if len(old) == 0 {
		return nil
	}
	used := map[string]bool{}
	for e, err := range kv.All(ctx, d.driver, deploymentPartition, kv.Range{Prefix: deploymentKeys, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return err
		}
		var rec deployment
		if err := kv.DecodeRecord(e.Value, &rec); err != nil {
			return err
		}
		for _, digest := range rec.Modules {
			used[digest] = true
		}
	}
	for _, digest := range old {
		if used[digest] {
			continue
		}
		if err := d.modules().Remove(ctx, digest); err != nil {
			return err
		}
	}
	return nil
}
