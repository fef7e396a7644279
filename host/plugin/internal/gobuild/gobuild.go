package gobuild

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host/fault"
)

// Options are the optional parts of a build.
type Options struct {
	// CacheDir keeps finished modules by their sources' content; "" builds each time.
	CacheDir string
	// Progress receives a sentence about each slow step; nil drops it.
	Progress func(string)
	// Finish completes a module that the toolchain has built, before the cache keeps it;
	// nil leaves it.
	Finish func(ctx context.Context, wasm []byte) ([]byte, error)
}

// buildArgs make the build reproducible and the module small: the same source
// and toolchain give the same bytes on every machine.
var buildArgs = []string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-buildmode=c-shared"}

// The bounds of a build.
const (
	maxSourceBytes = 64 << 20 // of one file that decides the cache key
	maxBuildOutput = 4 << 10  // of the compiler's words in an error
)

// Build returns the finished module of the plugin whose source is in dir, from the cache
// if that has it. Code not_found without such a directory, failed_precondition without a
// toolchain, invalid_argument if the source does not compile; the code of an error of
// Finish stays.
func Build(ctx context.Context, dir string, opts *Options) ([]byte, error) {
	if opts == nil {
		opts = &Options{}
	}
	b := builder{dir: dir, cacheDir: opts.CacheDir}
	if err := b.find(); err != nil {
		return nil, err
	}
	key, err := b.key(ctx)
	if err != nil {
		return nil, err
	}
	if wasm, ok := b.cached(key); ok {
		return wasm, nil
	}
	if opts.Progress != nil {
		opts.Progress("building " + dir)
	}
	wasm, err := b.build(ctx)
	if err != nil {
		return nil, err
	}
	if opts.Finish != nil {
		if wasm, err = opts.Finish(ctx, wasm); err != nil {
			return nil, fault.Errorf(fault.CodeOf(err), "build plugin %s: %w", dir, err)
		}
	}
	b.keep(key, wasm)
	return wasm, nil
}

type builder struct {
	dir      string
	cacheDir string
	goCmd    string
}

func (b *builder) find() error {
	info, err := os.Stat(b.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault.Errorf(fault.NotFound, "there is no directory %s", b.dir)
	case err != nil:
		return fault.Errorf(fault.FailedPrecondition, "build plugin: %w", err)
	case !info.IsDir():
		return fault.Errorf(fault.InvalidArgument, "%s is not a directory", b.dir).WithHint("name the directory of a Go source")
	}
	if sources, _ := filepath.Glob(filepath.Join(b.dir, "*.go")); len(sources) == 0 {
		return fault.Errorf(fault.InvalidArgument, "%s has no Go source", b.dir).
			WithHint("a source of another language needs the build script of its kit, which agenthost plugin new makes; or build it, and name the .wasm file")
	}
	if b.goCmd, err = exec.LookPath("go"); err != nil {
		return fault.Errorf(fault.FailedPrecondition, "building %s needs the Go toolchain, and there is no go command", b.dir).
			WithHint("install Go from https://go.dev/dl, or name a built .wasm file")
	}
	return nil
}

// key is a digest of everything that decides the module's bytes: the
// toolchain and its experiments, and the sources and modules of all packages outside the
// standard library.
func (b *builder) key(ctx context.Context) (string, error) {
	out, err := b.run(ctx, "list", "-deps", "-f", `{{if not .Standard}}{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{range .SFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{range .EmbedFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{with .Module}}{{with .GoMod}}{{.}}{{"\n"}}{{end}}{{end}}{{end}}`, ".")
	if err != nil {
		return "", err
	}
	files := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(files)
	files = slices.Compact(files) // a go.mod is there for each package
	h := sha256.New()
	version, err := b.run(ctx, "env", "GOVERSION", "GOEXPERIMENT", "GOWASM")
	if err != nil {
		return "", err
	}
	fmt.Fprintln(h, strings.TrimSpace(string(version)), buildArgs)
	for _, file := range files {
		if err := hashFile(h, file); err != nil {
			return "", fault.Errorf(fault.FailedPrecondition, "build plugin %s: %w", b.dir, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func hashFile(w io.Writer, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	fmt.Fprintln(w, filepath.Base(name))
	n, err := io.Copy(w, io.LimitReader(f, maxSourceBytes+1))
	if n > maxSourceBytes {
		return fmt.Errorf("%s is larger than %d bytes", name, maxSourceBytes)
	}
	return err
}

func (b *builder) build(ctx context.Context) ([]byte, error) {
	tmp, err := os.MkdirTemp("", "agenthost-build")
	if err != nil {
		return nil, fault.Errorf(fault.FailedPrecondition, "build plugin %s: %w", b.dir, err)
	}
	defer os.RemoveAll(tmp)
	out := filepath.Join(tmp, "plugin.wasm")
	if _, err := b.run(ctx, append(slices.Clone(buildArgs), "-o", out, ".")...); err != nil {
		return nil, err
	}
	wasm, err := os.ReadFile(out)
	if err != nil {
		return nil, fault.Errorf(fault.FailedPrecondition, "build plugin %s: %w", b.dir, err)
	}
	return wasm, nil
}

func (b *builder) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, b.goCmd, args...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
	var stdout bytes.Buffer
	stderr := &head{max: maxBuildOutput}
	cmd.Stdout, cmd.Stderr = &stdout, stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, fault.ContextError(ctx)
		}
		said := strings.TrimSpace(string(stderr.b))
		return nil, fault.Errorf(fault.InvalidArgument, "build plugin %s: go %s: %w\n%s", b.dir, args[0], err, said).
			WithHint("%s", buildHint(said))
	}
	return stdout.Bytes(), nil
}

// kitModule is the module that plugins in Go import the kit from.
const kitModule = "github.com/agenthost/agenthost"

// buildHint returns the remedy for an error of the Go command.
func buildHint(said string) string {
	switch {
	case strings.Contains(said, "go.mod file not found"):
		return "the source is in no Go module: put it under plugins of a project, which agenthost init DIR makes with the kit"
	case strings.Contains(said, "no required module provides package "+kitModule), strings.Contains(said, "cannot find module providing package "+kitModule):
		return "its Go module does not have the kit: put it under plugins of a project, which agenthost init DIR makes with the kit, or run: go get " + kitModule
	}
	return "fix what the compiler says above"
}

// head keeps the beginning of the text written to it.
type head struct {
	b   []byte
	max int
}

func (t *head) Write(b []byte) (int, error) {
	t.b = append(t.b, b[:min(len(b), t.max-len(t.b))]...)
	return len(b), nil
}

func (b *builder) cached(key string) ([]byte, bool) {
	if b.cacheDir == "" {
		return nil, false
	}
	wasm, err := os.ReadFile(filepath.Join(b.cacheDir, key+".wasm"))
	return wasm, err == nil
}

// keep stores a module for the next time. A cache that cannot be written costs
// time, not success.
func (b *builder) keep(key string, wasm []byte) {
	if b.cacheDir == "" || os.MkdirAll(b.cacheDir, 0o700) != nil {
		return
	}
	tmp, err := os.CreateTemp(b.cacheDir, "build")
	if err != nil {
		return
	}
	_, err = tmp.Write(wasm)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), filepath.Join(b.cacheDir, key+".wasm"))
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
}
