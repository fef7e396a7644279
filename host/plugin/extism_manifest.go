package plugin

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/internal/extism"
	"github.com/agenthost/agenthost/host/plugin/internal/refusal"
)

const (
	// maxExtismManifest bounds an Extism manifest without the module in it.
	maxExtismManifest = 1 << 20
	// maxExtismTimeout bounds timeout_ms.
	maxExtismTimeout = 24 * time.Hour
)

// ExtismManifest is an Extism manifest, read: a module, and what the manifest
// says of its limits, its configuration and the hosts it may reach.
//
// In Extism a manifest is the host's word, and here it becomes one: Options has
// what it allows. Look at Options.Granted before you load the module under it, or
// have a ceiling in the runtime: a manifest that comes with a plugin is the
// plugin's wish.
type ExtismManifest struct {
	Wasm    []byte
	Name    string // of the module, if it has one
	Options LoadOptions
}

// extismManifestJSON is the manifest's form.
type extismManifestJSON struct {
	Wasm []struct {
		Data    []byte            `json:"data"`
		Path    string            `json:"path"`
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers"`
		Method  string            `json:"method"`
		Hash    string            `json:"hash"`
		Name    string            `json:"name"`
	} `json:"wasm"`
	Memory struct {
		MaxPages             *int64 `json:"max_pages"`
		MaxHTTPResponseBytes *int64 `json:"max_http_response_bytes"`
		MaxVarBytes          *int64 `json:"max_var_bytes"`
	} `json:"memory"`
	Config       map[string]string `json:"config"`
	AllowedHosts []string          `json:"allowed_hosts"`
	AllowedPaths map[string]string `json:"allowed_paths"`
	TimeoutMS    int64             `json:"timeout_ms"`
}

// ReadExtismManifest reads an Extism manifest. A module that it names by path is
// read from dir or below; maxBytes bounds it, 0 is [DefaultModuleBytes]. The
// module's hash is checked if the manifest gives one.
//
// memory.max_pages becomes MemoryBytes and BlockBytes, max_var_bytes VarBytes,
// timeout_ms Timeout, and each of allowed_hosts a grant for https on its default
// port; * and a leading *. are known as patterns. Whatever this host would not
// hold to is an error of code invalid_argument or, where another engine could,
// failed_precondition: fields it does not know, allowed_paths, more than one
// module, and a url, which is not fetched.
func ReadExtismManifest(raw []byte, dir string, maxBytes int) (*ExtismManifest, error) {
	if maxBytes == 0 {
		maxBytes = DefaultModuleBytes
	}
	m, err := readExtismManifest(raw, dir, maxBytes)
	if err != nil {
		e := *fault.AsError(err)
		e.Message, e.Err = "read Extism manifest: "+e.Message, err
		return nil, &e
	}
	return m, nil
}

func readExtismManifest(raw []byte, dir string, maxBytes int) (*ExtismManifest, error) {
	if most := maxExtismManifest + maxBytes/3*4 + 4; len(raw) > most {
		return nil, refusal.Invalid("it has %d bytes, more than %d", len(raw), most)
	}
	var in extismManifestJSON
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return nil, refusal.Invalid("%v", err).WithHint("see https://extism.org/docs/concepts/manifest")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, refusal.Invalid("something follows it")
	}
	out := &ExtismManifest{}
	if err := in.module(out, dir, maxBytes); err != nil {
		return nil, err
	}
	if err := in.limits(&out.Options); err != nil {
		return nil, err
	}
	if err := in.grants(&out.Options); err != nil {
		return nil, err
	}
	out.Options.Extism.Config = in.Config
	return out, out.Options.Extism.check()
}

// module reads the one module.
func (in *extismManifestJSON) module(out *ExtismManifest, dir string, maxBytes int) error {
	switch {
	case len(in.Wasm) == 0:
		return refusal.Invalid("it names no module").WithHint("it needs an entry in wasm")
	case len(in.Wasm) > 1:
		return refusal.Unsupported("it links %d modules", len(in.Wasm)).
			WithHint("link them into one when you build, or in Go, run a plugin that you trust on the engine extismsdk")
	}
	w := in.Wasm[0]
	switch {
	case w.URL != "":
		return refusal.Unsupported("its module is at the url %q, and this host fetches no code", clean(w.URL)).
			WithHint("download it, and name it by path with its hash")
	case len(w.Data) > 0 && w.Path != "":
		return refusal.Invalid("its module has both data and a path")
	case len(w.Data) > maxBytes:
		return refusal.Invalid("its module has %d bytes, more than the limit ModuleBytes of %d", len(w.Data), maxBytes)
	case len(w.Data) > 0:
		out.Wasm = w.Data
	case w.Path != "":
		var err error
		if out.Wasm, err = readBelow(dir, w.Path, maxBytes); err != nil {
			return err
		}
	default:
		return refusal.Invalid("its module has neither data nor a path")
	}
	out.Name = w.Name
	if sum := sha256.Sum256(out.Wasm); w.Hash != "" && !strings.EqualFold(w.Hash, hex.EncodeToString(sum[:])) {
		return refusal.Invalid("its module has the SHA-256 %x, not %q", sum, clean(w.Hash)).WithHint("fetch it again, and find out who changed it")
	}
	return nil
}

// readBelow reads a file in a directory or below, whatever its links say.
func readBelow(dir, name string, maxBytes int) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, host.Errorf(host.FailedPrecondition, "%w", err)
	}
	defer root.Close()
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "its module cannot be read: %w", err).WithHint("name a file beside the manifest or below")
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, refusal.Invalid("its module %q is not a file", clean(name))
	}
	wasm, err := io.ReadAll(io.LimitReader(f, int64(maxBytes)+1))
	switch {
	case err != nil:
		return nil, host.Errorf(host.FailedPrecondition, "%w", err)
	case len(wasm) > maxBytes:
		return nil, refusal.Invalid("its module %q has more bytes than the limit ModuleBytes of %d", clean(name), maxBytes)
	}
	return wasm, nil
}

func (in *extismManifestJSON) limits(out *LoadOptions) error {
	m, l := in.Memory, &out.Limits
	for _, f := range []struct {
		name string
		v    *int64
		most int64
	}{
		{"max_pages", m.MaxPages, 1 << 16}, {"max_http_response_bytes", m.MaxHTTPResponseBytes, extism.MaxBlockBytes},
		{"max_var_bytes", m.MaxVarBytes, extism.MaxBlockBytes}, {"timeout_ms", &in.TimeoutMS, maxExtismTimeout.Milliseconds()},
	} {
		if f.v != nil && (*f.v < 0 || *f.v > f.most) {
			return refusal.Invalid("%s is %d, not from 0 to %d", f.name, *f.v, f.most)
		}
	}
	l.Timeout = time.Duration(in.TimeoutMS) * time.Millisecond
	if m.MaxPages != nil && *m.MaxPages > 0 {
		l.MemoryBytes = *m.MaxPages * pageBytes
		l.BlockBytes = int(min(l.MemoryBytes, extism.MaxBlockBytes))
	}
	if m.MaxVarBytes != nil {
		l.VarBytes = int(max(*m.MaxVarBytes, 1)) // 0 is none, and none fits into 1
	}
	if m.MaxHTTPResponseBytes != nil {
		out.Extism.HTTPBytes = int(*m.MaxHTTPResponseBytes)
	}
	return l.check()
}

func (in *extismManifestJSON) grants(out *LoadOptions) error {
	if len(in.AllowedPaths) > 0 {
		return refusal.Unsupported("it allows paths, and plugins have no files here").
			WithHint("give the plugin what it reads as its input or its config, or in Go, run one that you trust on the engine extismsdk")
	}
	if m := in.Memory.MaxHTTPResponseBytes; m != nil && *m == 0 {
		return nil // no response, no requests
	}
	for _, name := range in.AllowedHosts {
		if strings.ContainsAny(strings.TrimPrefix(name, "*"), "*?[]{}!,\\/: ") || name == "" {
			return refusal.Unsupported("it allows the hosts %q", clean(name)).
				WithHint("write a host's name, *.example.com for all below it, or * for all")
		}
		out.Granted.HTTP = append(out.Granted.HTTP, HTTPAccess{Scheme: "https", Host: name})
	}
	if err := out.Granted.Check(); err != nil {
		return refusal.Invalid("allowed_hosts: %w", err)
	}
	return nil
}
