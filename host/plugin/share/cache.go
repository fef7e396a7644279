package share

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/errdef"

	"github.com/agenthost/agenthost/host/fault"
)

// cache keeps contents by digest. It is safe for concurrent use by any number of
// processes; a nil cache keeps nothing.
type cache struct {
	dir   string
	files *oci.Storage
}

func newCache(dir string) (*cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fault.Errorf(fault.FailedPrecondition, "make the cache of pulled plugins: %w", err).WithHint("set AGENTHOST_CACHE to a directory that you may write to")
	}
	files, err := oci.NewStorage(dir)
	if err != nil {
		return nil, fault.Errorf(fault.FailedPrecondition, "open the cache of pulled plugins: %w", err)
	}
	return &cache{dir, files}, nil
}

// read returns the artifact of a reference with a digest, nil unless all of its contents
// are kept and whole.
func (c *cache) read(ctx context.Context, ref Reference, moduleBytes int) *Artifact {
	if c == nil || ref.Digest == "" || ref.Registry == "" {
		return nil
	}
	d := digest.Digest(ref.Digest)
	info, err := os.Stat(filepath.Join(c.dir, ocispec.ImageBlobsDir, d.Algorithm().String(), d.Encoded()))
	if err != nil {
		return nil
	}
	// The media type is not kept; only one of these has the artifact, for a document that
	// could be two things is refused.
	for _, mediaType := range []string{ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex, dockerManifestType, dockerIndexType} {
		desc := ocispec.Descriptor{MediaType: mediaType, Digest: d, Size: info.Size()}
		if a, err := (&reader{from: c.files, moduleBytes: moduleBytes}).read(ctx, desc); err == nil {
			return a
		}
	}
	return nil
}

// keep keeps contents. A cache that cannot be written costs time, not success.
func (c *cache) keep(ctx context.Context, contents []blob) {
	if c == nil {
		return
	}
	for _, b := range contents {
		if err := c.files.Push(ctx, b.desc, bytes.NewReader(b.data)); errors.Is(err, errdef.ErrAlreadyExists) && !c.whole(ctx, b) {
			if c.files.Delete(ctx, b.desc) == nil {
				_ = c.files.Push(ctx, b.desc, bytes.NewReader(b.data))
			}
		}
	}
}

// whole reports whether the kept file of a content is the content.
func (c *cache) whole(ctx context.Context, b blob) bool {
	_, err := content.FetchAll(ctx, c.files, b.desc)
	return err == nil
}

// bundlesName returns the file of the bundles beside an artifact.
func (c *cache) bundlesName(d digest.Digest) string {
	return filepath.Join(c.dir, "bundles", d.Algorithm().String(), d.Encoded()+".json")
}

// keepBundles keeps the bundles beside an artifact, in the place of those that were kept. Like
// contents that are not kept, they cost time.
func (c *cache) keepBundles(d digest.Digest, list []Bundle) {
	if c == nil {
		return
	}
	raw, err := json.Marshal(bundlesFile{Bundles: list})
	name := c.bundlesName(d)
	if err != nil || os.MkdirAll(filepath.Dir(name), 0o700) != nil {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(name), "*.new")
	if err != nil {
		return
	}
	_, err = f.Write(raw)
	if err = errors.Join(err, f.Close()); err != nil || os.Rename(f.Name(), name) != nil {
		_ = os.Remove(f.Name())
	}
}

// bundles returns the kept bundles of an artifact, which the caller verifies.
func (c *cache) bundles(d digest.Digest) []Bundle {
	if c == nil {
		return nil
	}
	f, err := os.Open(c.bundlesName(d))
	if err != nil {
		return nil
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxBundlesFileBytes))
	if err != nil {
		return nil
	}
	return readBundlesFile(raw)
}

// keeper remembers the contents that are read through it. It is used by one reader.
type keeper struct {
	content.Fetcher
	contents []blob
}

// Fetch implements [content.Fetcher].
func (k *keeper) Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	from, err := k.Fetcher.Fetch(ctx, desc)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	data, err := content.ReadAll(from, desc)
	if err != nil {
		return nil, err
	}
	k.contents = append(k.contents, blob{desc, data})
	return io.NopCloser(bytes.NewReader(data)), nil
}
