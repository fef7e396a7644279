package buildcmd

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
	"ZIG", "ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR", "ZIG_LIB_DIR",
}

// secretWords are in the names of variables that hold secrets, such as CARGO_REGISTRY_TOKEN.
var secretWords = [...]string{"TOKEN", "PASSW", "SECRET", "AUTH", "KEY", "CREDENTIAL"}

// Environment returns the whole environment of a command: what every process gets, what
// compilers read, and the variables called own. Of those the ones called secrets are left out,
// unless they are among own.
func Environment(own, secrets []string) []string {
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
