package project

import (
	"os"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/internal/osprocess"
)

// compilerVariables are the variables of the host's environment that a build command gets
// beside those of every process. A name that ends in * is of all variables that begin so.
var compilerVariables = [...]string{
	"USER", "LOGNAME", "LC_ALL", "NO_COLOR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"TEMP", "TMP", "PATHEXT", "USERPROFILE", "APPDATA", "LOCALAPPDATA", // of Windows
	"CC", "CXX", "AR", "LD", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "LD_LIBRARY_PATH", "PKG_CONFIG_PATH", "SDKROOT", "WASI_SDK_PATH",
	"RUSTC", "RUSTFLAGS", "CARGO_*", "RUSTUP_*",
	"GOROOT", "GOPATH", "GOBIN", "GOCACHE", "GOMODCACHE", "GOPROXY", "GOPRIVATE", "GONOSUMDB", "GOSUMDB", "GOFLAGS", "GOTOOLCHAIN", "GOENV", "GOTMPDIR",
	"ASC", "NODE_PATH", "NODE_EXTRA_CA_CERTS", "npm_config_*",
}

// secretWords are in the names of variables that hold secrets, such as CARGO_REGISTRY_TOKEN.
var secretWords = [...]string{"TOKEN", "PASSW", "SECRET", "AUTH", "KEY", "CREDENTIAL"}

// buildEnvironment returns the whole environment of a plugin's build command: none of the
// host's secrets are in it, but those that the plugin's build.env names.
func (s *pluginSet) buildEnvironment(id string) []string {
	own, secrets := s.config.Plugins[id].Build.Env, s.secretVariables()
	env := osprocess.Environment()
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if slices.Contains(own, name) || isCompilerVariable(name) && !slices.Contains(secrets, name) {
			env = append(env, variable)
		}
	}
	return env
}

func isCompilerVariable(name string) bool {
	for _, pattern := range compilerVariables {
		prefix, many := strings.CutSuffix(pattern, "*")
		switch {
		case name == pattern:
			return true
		case many && strings.HasPrefix(name, prefix):
			return !slices.ContainsFunc(secretWords[:], func(word string) bool { return strings.Contains(strings.ToUpper(name), word) })
		}
	}
	return false
}

// secretVariables returns the variables that the configuration reads keys and addresses from.
func (s *pluginSet) secretVariables() (names []string) {
	for _, m := range s.config.Models {
		names = append(names, m.KeyEnv)
	}
	for _, m := range s.config.Memory {
		names = append(names, m.KeyEnv)
		if m.Embeddings != nil {
			names = append(names, m.Embeddings.KeyEnv)
		}
	}
	for _, a := range s.config.Agents {
		if a.Messages != nil {
			names = append(names, a.Messages.AddressEnv)
		}
	}
	return names
}
