package project

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/share"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
)

// ShareClient returns a client of registries and layout folders, with this user's
// credentials of docker and cache. The caller closes it.
func (m *Modules) ShareClient(registries ...share.Registry) (*share.Client, error) {
	dir, err := m.CacheDir("oci")
	if err != nil {
		return nil, err
	}
	docker := m.getenv("DOCKER_CONFIG")
	if docker == "" {
		if home := m.getenv("HOME"); home != "" {
			docker = filepath.Join(home, ".docker")
		}
	}
	if docker != "" {
		docker = filepath.Join(docker, "config.json")
	}
	return share.New(&share.Options{Registries: registries, DockerConfig: docker, CacheDir: dir})
}

// sharing reads the plugins of a configuration that come from registries and layout
// folders.
type sharing struct {
	config *configfile.Config
	trusts *trusts
	client *share.Client
	lock   *share.Lock
}

// openSharing returns the shared plugins of a configuration. The caller closes it.
func openSharing(c *configfile.Config, modules *Modules, trusts *trusts) (*sharing, error) {
	s := &sharing{config: c, trusts: trusts}
	var err error
	if s.lock, err = readLock(c); err != nil {
		return nil, err
	}
	registries := []share.Registry{}
	for i, r := range c.Share.Registries {
		at := configfile.Keys("share", "registries").To(i)
		out := share.Registry{Host: r.Host, PlainHTTP: r.PlainHTTP}
		for _, text := range r.Addresses {
			prefix, err := netip.ParsePrefix(text)
			if err != nil {
				return nil, c.ErrorAt(at.To("addresses"), "%q is no range of addresses", text).WithHint("write 10.1.0.0/16")
			}
			out.Addresses = append(out.Addresses, prefix)
		}
		registries = append(registries, out)
	}
	if s.client, err = modules.ShareClient(registries...); err != nil {
		return nil, c.Wrap(err, configfile.Keys("share", "registries"))
	}
	return s, nil
}

func (s *sharing) close() error { return s.client.Close() }

// readLock reads the lock beside a configuration; an absent one is empty.
func readLock(c *configfile.Config) (*share.Lock, error) {
	open := c.Fsys
	if open == nil {
		open = configfile.OSFiles{}
	}
	r, err := open.Open(c.FilePath(share.LockName))
	if errors.Is(err, fs.ErrNotExist) {
		return &share.Lock{}, nil
	}
	if err != nil {
		return nil, host.Errorf(host.FailedPrecondition, "read %s: %w", share.LockName, err)
	}
	defer r.Close()
	return share.ReadLock(r)
}

// reference returns the reference of a plugin's path; a folder of it lies beside the
// configuration.
func (s *sharing) reference(source string) (share.Reference, error) {
	ref, err := share.ParseReference(source)
	if ref.Dir != "" {
		ref.Dir = s.config.FilePath(ref.Dir)
	}
	return ref, err
}

// checked pulls a plugin and holds it to every policy that it is under, before a byte of
// it is read as a module.
func (s *sharing) checked(ctx context.Context, id string, ref share.Reference) (a *share.Artifact, signer string, err error) {
	policies, err := s.trusts.of(s.config, id)
	if err != nil {
		return nil, "", err
	}
	names := slices.Sorted(maps.Keys(policies))
	for _, whose := range names {
		if err := policies[whose].CheckPlace(ref); err != nil {
			return nil, "", trustError(whose, err)
		}
	}
	if a, err = s.client.Pull(ctx, ref); err != nil {
		return nil, "", err
	}
	within := a.Bundles
	a.Bundles = append(slices.Clip(within), s.client.KeptBundles(ref.At(a.Digest))...)
	signer, err = checkSigned(ctx, policies, ref, a)
	if host.CodeOf(err) != host.PermissionDenied || !asksForBundles(policies) {
		return a, signer, err
	}
	// Signatures that are newer than the cache are beside the artifact.
	beside, unread, unknown := s.client.Bundles(ctx, ref.At(a.Digest))
	if unknown != nil {
		e := *fault.AsError(err)
		e.Message, e.Err = fmt.Sprintf("%s; newer signatures are not known: %v", e.Message, unknown), err
		return nil, "", &e
	}
	a.Bundles, a.Unread = append(slices.Clip(within), beside...), unread
	signer, err = checkSigned(ctx, policies, ref, a)
	return a, signer, err
}

// asksForBundles reports whether a policy trusts who signs by sigstore.
func asksForBundles(policies map[string]*trustPolicy) bool {
	for _, p := range policies {
		if len(p.Identities) > 0 {
			return true
		}
	}
	return false
}

// checkSigned holds an artifact to the signatures that policies ask for, and returns who has signed
// it for the last of them that asks.
func checkSigned(ctx context.Context, policies map[string]*trustPolicy, ref share.Reference, a *share.Artifact) (signer string, err error) {
	for _, whose := range slices.Sorted(maps.Keys(policies)) {
		by, err := policies[whose].CheckSigned(ctx, ref, a)
		if err != nil {
			return "", trustError(whose, err)
		}
		signer = cmp.Or(by.Who, signer)
	}
	return signer, nil
}

// module returns the module of a plugin that the configuration names by a reference: the
// content of the digest that is in the reference, or else in the lock.
func (s *sharing) module(ctx context.Context, id, source string) (*Module, error) {
	ref, err := s.reference(source)
	if err != nil {
		return nil, err
	}
	entry, locked := s.lock.Get(source)
	switch {
	case ref.Digest != "":
	case !locked:
		return nil, host.Errorf(host.FailedPrecondition, "%s is not in %s, which says what it is", source, share.LockName).
			WithHint("agenthost plugin pull --project %s", filepath.Dir(s.config.Name))
	default:
		ref = ref.At(entry.Digest)
	}
	a, _, err := s.checked(ctx, id, ref)
	if err == nil && locked {
		err = entry.Check(a)
	}
	if err != nil {
		return nil, err
	}
	return &Module{Wasm: a.Module}, nil
}

// shared returns the module of a plugin whose path is a reference.
func (s *pluginSet) shared(ctx context.Context, id, source string) (*Module, error) {
	from, err := openSharing(s.config, s.modules, s.trusts)
	if err != nil {
		return nil, err
	}
	m, err := from.module(ctx, id, source)
	return m, errors.Join(err, from.close())
}

// Pulled is a plugin that PullPlugins has looked at.
type Pulled struct {
	Plugin string       `json:"plugin"`
	Source string       `json:"source"`
	Before share.Locked `json:"before,omitzero"` // of the lock; zero for a plugin that it did not have
	Now    share.Locked `json:"now"`
}

// PullPlugins pulls the plugins of a configuration that come from registries and layout
// folders, checks them against the policies that they are under, and writes the lock
// beside the configuration. What the lock has stays, unless update is set: then tags are
// asked again. If it fails the lock is not changed. Code failed_precondition for a
// configuration that is not in the operating system's files.
func PullPlugins(ctx context.Context, file *File, update bool, options *Options) (list []Pulled, err error) {
	if file.Embedded() {
		return nil, host.Errorf(host.FailedPrecondition, "the configuration is in the binary, and has no place for %s", share.LockName).
			WithHint("make a project of your own: agenthost init")
	}
	opts := options.orDefaults()
	s, err := openSharing(file.c, opts.Modules, &trusts{sigstore: opts.Sigstore})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	kept := map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(file.c.Plugins)) {
		source := file.c.Plugins[id].Path
		if !share.IsReference(source) {
			continue
		}
		kept[source] = true
		one, err := s.pull(ctx, id, source, update)
		if err != nil {
			return nil, file.c.Wrap(ofPlugin(id, err), configfile.Keys("plugins", id, "path"))
		}
		list = append(list, *one)
	}
	s.lock.Keep(kept)
	return list, s.writeLock()
}

func (s *sharing) pull(ctx context.Context, id, source string, update bool) (*Pulled, error) {
	ref, err := s.reference(source)
	if err != nil {
		return nil, err
	}
	before, locked := s.lock.Get(source)
	if locked && !update && ref.Digest == "" {
		ref = ref.At(before.Digest)
	}
	a, signer, err := s.checked(ctx, id, ref)
	if err != nil {
		return nil, err
	}
	now := share.Entry(a, signer)
	s.lock.Set(source, now)
	return &Pulled{Plugin: id, Source: source, Before: before, Now: now}, nil
}

func (s *sharing) writeLock() error {
	var text strings.Builder
	if _, err := s.lock.WriteTo(&text); err != nil {
		return err
	}
	name := filepath.FromSlash(s.config.FilePath(share.LockName))
	err := os.WriteFile(name+".new", []byte(text.String()), 0o644)
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		return host.Errorf(host.FailedPrecondition, "write %s: %w", share.LockName, err).WithHint("make the directory writable for this user")
	}
	return nil
}
