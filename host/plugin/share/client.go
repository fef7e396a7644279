package share

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/fault"
)

// The bounds of what a client does.
const (
	DefaultTimeout = 2 * time.Minute // of one operation
	MaxTags        = 1000            // of a repository that Tags returns
	maxTagPages    = 20
	maxIndexBytes  = 1 << 20 // the list of a layout folder
)

// Registry says how a registry is reached that does not speak https on the public
// internet.
type Registry struct {
	Host      string         // HOST or HOST:PORT
	PlainHTTP bool           // http in the place of https
	Addresses []netip.Prefix // where it may lie although they are not public: 10.1.0.0/16
}

// Options are the options of a client; the zero value is right.
type Options struct {
	// Registries are those that are reached in another way than by https at public
	// addresses.
	Registries []Registry
	// DockerConfig is the file with the credentials of docker login, or the program that
	// has them: config.json. "" has none, and every request is anonymous.
	DockerConfig string
	// CacheDir keeps pulled contents by digest, and each is compared with its digest when it is
	// read. "" keeps nothing.
	CacheDir string
	// ModuleBytes bounds a module (16 MiB).
	ModuleBytes int
	// Timeout bounds an operation (2 minutes).
	Timeout time.Duration
	// Egress are the options of the requests' client; nil means the defaults.
	Egress *egress.Options
}

// Client pulls and pushes plugins. It is safe for concurrent use.
type Client struct {
	opts   Options
	egress *egress.Client
	creds  auth.CredentialFunc
	tokens auth.Cache
	cache  *cache // nil keeps nothing
}

// New returns a client. Close it when it is no longer needed. Code invalid_argument for
// options that cannot be used, failed_precondition for credentials that cannot be read.
func New(options *Options) (*Client, error) {
	c := &Client{tokens: auth.NewCache()}
	if options != nil {
		c.opts = *options
	}
	if c.opts.ModuleBytes == 0 {
		c.opts.ModuleBytes = DefaultModuleBytes
	}
	if c.opts.Timeout == 0 {
		c.opts.Timeout = DefaultTimeout
	}
	c.opts.Registries = slices.Clone(c.opts.Registries)
	for _, r := range c.opts.Registries {
		if _, err := r.policy(r.Host); err != nil {
			return nil, fault.Errorf(fault.InvalidArgument, "registry %q: %w", r.Host, err)
		}
	}
	if file := c.opts.DockerConfig; file != "" {
		store, err := credentials.NewStore(file, credentials.StoreOptions{})
		if err != nil {
			return nil, fault.Errorf(fault.FailedPrecondition, "read the credentials of docker in %s: %w", file, err).WithHint("mend the file, or run docker login")
		}
		c.creds = credentials.Credential(store)
	}
	if c.opts.CacheDir != "" {
		var err error
		if c.cache, err = newCache(c.opts.CacheDir); err != nil {
			return nil, err
		}
	}
	c.egress = egress.New(c.opts.Egress)
	return c, nil
}

// Close closes the connections of a client. It may be called twice.
func (c *Client) Close() error { return c.egress.Close() }

// policy returns where requests of a registry may go: to itself with every method, and
// to read to every public server, for registries keep contents and tokens elsewhere.
func (r Registry) policy(host string) (*egress.Policy, error) {
	own := egress.Rule{Scheme: "https", Host: host, Addresses: r.Addresses}
	if r.PlainHTTP {
		own.Scheme = "http"
	}
	if name, port, err := net.SplitHostPort(host); err == nil {
		own.Host = name
		if own.Port, err = strconv.Atoi(port); err != nil || own.Port < 1 {
			return nil, fault.Errorf(fault.InvalidArgument, "its port is not a number from 1 to 65535")
		}
	}
	return egress.NewPolicy(&egress.Grants{HTTP: []egress.Rule{own, {Host: "*", Methods: []string{http.MethodGet, http.MethodHead, http.MethodPost}}}})
}

// repository returns the registry's side of a reference.
func (c *Client) repository(ref Reference) (*remote.Repository, error) {
	how := Registry{Host: ref.Registry}
	if i := slices.IndexFunc(c.opts.Registries, func(r Registry) bool { return r.Host == ref.Registry }); i >= 0 {
		how = c.opts.Registries[i]
	}
	policy, err := how.policy(ref.remote().Host())
	if err != nil {
		return nil, fault.Errorf(fault.InvalidArgument, "registry %q: %w", ref.Registry, err)
	}
	return &remote.Repository{
		Client: &auth.Client{
			Client:     &http.Client{Transport: &transport{client: c.egress, policy: policy, blobBytes: c.opts.ModuleBytes}},
			Credential: c.creds, Cache: c.tokens, ClientID: "agenthost",
			BlockedRealmPrefixes: []netip.Prefix{}, // egress checks each address when it is dialed
		},
		Reference: ref.remote(), PlainHTTP: how.PlainHTTP,
		MaxMetadataBytes: maxIndexBytes, TagListMaxPages: maxTagPages, ReferrerListMaxPages: maxReferrerPages, SkipReferrersGC: true,
	}, nil
}

// source is what artifacts are read from.
type source interface {
	content.Fetcher
	content.Resolver
	content.PredecessorFinder
}

func (c *Client) source(ctx context.Context, ref Reference) (source, error) {
	if ref.Dir == "" {
		return c.repository(ref)
	}
	if err := checkLayout(ref.Dir); err != nil {
		return nil, err
	}
	store, err := oci.NewFromFS(ctx, os.DirFS(ref.Dir))
	if err != nil {
		return nil, fault.Errorf(fault.InvalidArgument, "%s is no layout folder that can be read: %w", ref.Dir, err)
	}
	return store, nil
}

// checkLayout refuses a folder that is none, and one whose list is too long to be read.
func checkLayout(dir string) error {
	info, err := os.Stat(filepath.Join(dir, ocispec.ImageIndexFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault.Errorf(fault.NotFound, "%s is no OCI layout folder: it has no %s", dir, ocispec.ImageIndexFile).
			WithHint("agenthost plugin push FILE %s%s:TAG makes one", LayoutPrefix, dir)
	case err != nil:
		return fault.Errorf(fault.FailedPrecondition, "read %s: %w", dir, err)
	case info.Size() > maxIndexBytes:
		return fault.Errorf(fault.ResourceExhausted, "%s of %s has %d bytes, more than %d", ocispec.ImageIndexFile, dir, info.Size(), maxIndexBytes)
	}
	return nil
}

// do gives an operation its deadline and its error the reference.
func (c *Client) do(ctx context.Context, doing string, ref Reference, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.opts.Timeout,
		fault.Errorf(fault.DeadlineExceeded, "it took longer than the limit Timeout of %s", c.opts.Timeout))
	defer cancel()
	err := fn(ctx)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = fault.ContextError(ctx)
	}
	return about(err, doing, ref)
}

// Resolve returns the digest that a reference names now. Codes: not_found without such a
// repository or tag, permission_denied if the registry does not let these credentials
// read, unavailable if it does not answer as a registry.
func (c *Client) Resolve(ctx context.Context, ref Reference) (digest string, err error) {
	err = c.do(ctx, "resolve", ref, func(ctx context.Context) error {
		desc, err := c.resolve(ctx, ref)
		digest = desc.Digest.String()
		return err
	})
	return digest, err
}

func (c *Client) resolve(ctx context.Context, ref Reference) (ocispec.Descriptor, error) {
	from, err := c.source(ctx, ref)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	desc, err := from.Resolve(ctx, ref.name())
	switch {
	case err != nil:
		return desc, wrap(err, "ask for its digest")
	case desc.Digest.Validate() != nil || desc.Digest.Algorithm() != digest.SHA256:
		return desc, fault.Errorf(fault.Unavailable, "the registry answers with a digest that cannot be checked: %.100q", desc.Digest)
	case ref.Digest != "" && desc.Digest.String() != ref.Digest:
		return desc, fault.Errorf(fault.DataLoss, "the registry answers with the digest %s", desc.Digest)
	}
	return desc, nil
}

// Pull reads an artifact. What it returns is of the digests that the manifest names; who
// made it is not checked: that is the caller's policy. Codes are those of Resolve, data_loss
// for contents that are not of their digest, resource_exhausted for larger ones than the
// bounds, and invalid_argument for contents that are no plugin.
func (c *Client) Pull(ctx context.Context, ref Reference) (a *Artifact, err error) {
	err = c.do(ctx, "pull", ref, func(ctx context.Context) error {
		if a = c.cache.read(ctx, ref, c.opts.ModuleBytes); a != nil {
			return nil
		}
		from, err := c.source(ctx, ref)
		if err != nil {
			return err
		}
		desc, err := c.resolve(ctx, ref)
		if err != nil {
			return err
		}
		kept := &keeper{Fetcher: from}
		a, err = (&reader{from: kept, moduleBytes: c.opts.ModuleBytes}).read(ctx, desc)
		if err == nil && ref.Registry != "" {
			c.cache.keep(ctx, kept.contents)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// Push writes an artifact to where a reference names a tag, and returns its digest. A tag
// that named another one names this one then. Codes are those of Resolve, and
// invalid_argument for a reference with a digest alone.
func (c *Client) Push(ctx context.Context, ref Reference, a *Artifact) (digest string, err error) {
	err = c.do(ctx, "push to", ref, func(ctx context.Context) error {
		if ref.Tag == "" || ref.Digest != "" {
			return fault.Errorf(fault.InvalidArgument, "a plugin is pushed to a tag, and gets its digest").WithHint("write %s:TAG", ref.Place())
		}
		if err := a.check(c.opts.ModuleBytes); err != nil {
			return err
		}
		all, err := a.blobs()
		if err != nil {
			return err
		}
		to, err := c.sink(ctx, ref)
		if err != nil {
			return err
		}
		for _, b := range all {
			if err := pushBlob(ctx, to, b); err != nil {
				return err
			}
		}
		last := all[len(all)-1].desc
		digest = last.Digest.String()
		return wrap(to.Tag(ctx, last, ref.Tag), "set the tag")
	})
	if err != nil {
		return "", err
	}
	return digest, nil
}

// sink is what artifacts are written to.
type sink interface {
	content.Storage
	content.TagResolver
}

func (c *Client) sink(ctx context.Context, ref Reference) (sink, error) {
	if ref.Dir == "" {
		return c.repository(ref)
	}
	store, err := oci.NewWithContext(ctx, ref.Dir)
	if err != nil {
		return nil, fault.Errorf(fault.FailedPrecondition, "open the layout folder %s: %w", ref.Dir, err)
	}
	return store, nil
}

func pushBlob(ctx context.Context, to sink, b blob) error {
	if has, err := to.Exists(ctx, b.desc); err != nil {
		return wrap(err, "look for a content")
	} else if has {
		return nil
	}
	err := to.Push(ctx, b.desc, bytes.NewReader(b.data))
	if errors.Is(err, errdef.ErrAlreadyExists) {
		return nil
	}
	return wrap(err, "write a content")
}

// Tag has a further tag name the artifact of a reference.
func (c *Client) Tag(ctx context.Context, ref Reference, tag string) error {
	return c.do(ctx, "tag", ref, func(ctx context.Context) error {
		if err := (ref.WithTag(tag)).remote().ValidateReferenceAsTag(); err != nil {
			return fault.Errorf(fault.InvalidArgument, "%.140q is no tag", tag)
		}
		desc, err := c.resolve(ctx, ref)
		if err != nil {
			return err
		}
		to, err := c.sink(ctx, ref)
		if err != nil {
			return err
		}
		return wrap(to.Tag(ctx, desc, tag), "set the tag")
	})
}

// Tags returns the first MaxTags tags of a reference's repository or folder, sorted.
func (c *Client) Tags(ctx context.Context, ref Reference) (tags []string, err error) {
	err = c.do(ctx, "list the tags of", ref, func(ctx context.Context) error {
		from, err := c.source(ctx, ref)
		if err != nil {
			return err
		}
		lister, ok := from.(interface {
			Tags(ctx context.Context, last string, fn func([]string) error) error
		})
		if !ok {
			return fault.Errorf(fault.Unimplemented, "it lists no tags")
		}
		err = lister.Tags(ctx, "", func(page []string) error {
			if tags = append(tags, page...); len(tags) >= MaxTags {
				return errEnough
			}
			return nil
		})
		if errors.Is(err, errEnough) {
			err = nil
		}
		return wrap(err, "list tags")
	})
	slices.Sort(tags)
	return tags[:min(len(tags), MaxTags)], err
}

var errEnough = errors.New("enough tags")

// about names the reference in an error.
func about(err error, doing string, ref Reference) error {
	e := *fault.AsError(err)
	e.Message, e.Err = doing+" "+ref.String()+": "+e.Message, err
	return &e
}

// wrap gives an error of a registry or a folder its code.
func wrap(err error, doing string) error {
	if err == nil {
		return nil
	}
	var own *fault.Error
	if errors.As(err, &own) {
		return own
	}
	var answer *errcode.ErrorResponse
	switch {
	case errors.As(err, &answer):
		return refused(answer, doing)
	case errors.Is(err, errdef.ErrNotFound):
		return fault.Errorf(fault.NotFound, "there is no such plugin").WithHint("look at the name and the tag; a private registry also answers so without: docker login HOST")
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist):
		return fault.Errorf(fault.FailedPrecondition, "%s: %w", doing, err)
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return fault.Errorf(fault.PermissionDenied, "the registry asks for credentials").WithHint("run: docker login HOST")
	}
	return fault.Errorf(fault.Unavailable, "%s: %w", doing, err)
}

// refused makes an error of a registry's answer.
func refused(answer *errcode.ErrorResponse, doing string) error {
	said := []string{}
	for _, e := range answer.Errors[:min(len(answer.Errors), 3)] {
		said = append(said, strings.ToValidUTF8(e.Error(), ""))
	}
	code, hint := fault.Unavailable, "ask again later, or look at the registry"
	switch answer.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		code, hint = fault.PermissionDenied, "run: docker login HOST, or ask who owns the repository"
	case http.StatusNotFound:
		code, hint = fault.NotFound, "look at the name and the tag"
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge:
		code, hint = fault.FailedPrecondition, "does the registry keep OCI artifacts?"
	}
	return fault.Errorf(code, "%s: the registry answers with status %d %.300q", doing, answer.StatusCode, strings.Join(said, "; ")).WithHint("%s", hint)
}
