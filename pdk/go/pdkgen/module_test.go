package main

// Scenario: a new user has the go command and a proxy of modules, and nothing of this repository.

import (
	"archive/zip"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	kitModule  = "github.com/agenthost/agenthost"
	kitVersion = "v0.1.0"
)

// publish makes a proxy of modules that has the kit, as far as a plugin needs it.
func publish(t *testing.T, root string) (proxy string) {
	t.Helper()
	proxy = t.TempDir()
	dir := filepath.Join(proxy, filepath.FromSlash(kitModule), "@v")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	goMod := read(t, filepath.Join(root, "go.mod"))
	for name, text := range map[string]string{
		"list": kitVersion + "\n", kitVersion + ".info": `{"Version":"` + kitVersion + `"}`, kitVersion + ".mod": string(goMod),
	} {
		write(t, filepath.Join(dir, name), text)
	}
	f, err := os.Create(filepath.Join(dir, kitVersion+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	add := func(name string, text []byte) {
		t.Helper()
		w, err := z.Create(kitModule + "@" + kitVersion + "/" + name)
		if err == nil {
			_, err = w.Write(text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	add("go.mod", goMod)
	for _, kit := range []string{"pdk", "pdkgen", "pdkjson", "pdktest"} {
		err := fs.WalkDir(os.DirFS(root), "pdk/go/"+kit, func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && !strings.Contains(name, "testdata") {
				add(name, read(t, filepath.Join(root, name)))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return proxy
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestAPluginNeedsOneGoGet makes a typed plugin as pdk/go/README.md says, without a replace line.
func TestAPluginNeedsOneGoGet(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("needs the go tool in PATH")
	}
	proxy, dir, cache := publish(t, "../../.."), t.TempDir(), t.TempDir()
	run := func(env []string, args ...string) string {
		t.Helper()
		cmd := exec.Command(goTool, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), append([]string{
			"GOPROXY=file://" + filepath.ToSlash(proxy), "GOMODCACHE=" + cache, "GOFLAGS=-modcacherw", "GOSUMDB=off", "GONOSUMDB=", "GONOPROXY=", "GOPRIVATE=", "GOWORK=off", "GOTOOLCHAIN=local",
		}, env...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	readme := string(read(t, "../README.md"))
	_, source, _ := strings.Cut(readme, "```go\n")
	source, _, ok := strings.Cut(source, "```")
	if !ok {
		t.Fatal("the README has no plugin")
	}
	run(nil, "mod", "init", "example.com/greet")
	run(nil, "get", kitModule+"/pdk/go/pdk")
	write(t, filepath.Join(dir, "main.go"), source)
	run(nil, "generate")
	run([]string{"GOOS=wasip1", "GOARCH=wasm"}, "build", "-buildmode=c-shared", "-o", "greet.wasm")
	if module := read(t, filepath.Join(dir, "greet.wasm")); !strings.HasPrefix(string(module), "\x00asm") {
		t.Errorf("the module begins with %q", module[:4])
	}
	if text := string(read(t, filepath.Join(dir, "go.mod"))); strings.Contains(text, "replace") || !strings.Contains(text, kitModule+" "+kitVersion) {
		t.Errorf("go.mod is\n%s", text)
	}
}
