package egress

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/agenthost/agenthost/host/fault"
)

// maxSecretBytes bounds a secret's value.
const maxSecretBytes = 16 << 10

// hidden is the printed form of a secret.
const hidden = "[secret]"

// Secret is a value that does not print: every verb of fmt, JSON and slog write
// "[secret]" instead. Only [Secret.Reveal] gives it away. The zero Secret is
// empty.
type Secret struct{ value *string }

// NewSecret returns a secret with that value.
func NewSecret(value string) Secret { return Secret{&value} }

// Reveal returns the value. It is for the code that sends it.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// String returns "[secret]".
func (s Secret) String() string { return hidden }

// Format writes "[secret]" whatever the verb and flags.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// MarshalText returns "[secret]"; JSON and other encodings use it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// LogValue returns "[secret]".
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

var (
	_ fmt.Formatter  = Secret{}
	_ slog.LogValuer = Secret{}
)

// Secrets is where the values of secrets come from. Calls may come from many
// goroutines. A name that the tenant does not have is an error of code
// not_found, whose hint reaches a guest; no other error's text does.
type Secrets interface {
	Secret(ctx context.Context, tenant, name string) (Secret, error)
}

// EnvSecrets reads secrets from environment variables: PREFIX NAME is a secret for
// all tenants, PREFIX TENANT "__" NAME one tenant's, which wins. Both are written
// in capitals, with "_" for a hyphen or dot. So that no tenant reads another's
// variable, a secret's name has no two such signs in a row and none at its ends,
// and a tenant whose name is not made of small letters, digits and single hyphens
// has only the secrets of all tenants; use files for such tenants.
type EnvSecrets struct {
	Prefix string                      // default "AGENTHOST_SECRET_"
	Lookup func(string) (string, bool) // default os.LookupEnv
}

// DefaultEnvPrefix is the default of EnvSecrets.Prefix.
const DefaultEnvPrefix = "AGENTHOST_SECRET_"

// Secret returns the secret's variable.
func (e EnvSecrets) Secret(_ context.Context, tenant, name string) (Secret, error) {
	prefix, lookup := e.Prefix, e.Lookup
	if prefix == "" {
		prefix = DefaultEnvPrefix
	}
	if lookup == nil {
		lookup = os.LookupEnv
	}
	if !segments(name, "_-.") {
		return Secret{}, fault.Errorf(fault.NotFound, "secret %q can't be the name of a variable", name)
	}
	var names []string
	if segments(tenant, "-") && tenant == strings.ToLower(tenant) {
		names = append(names, prefix+envName(tenant)+"__"+envName(name))
	}
	for _, n := range append(names, prefix+envName(name)) {
		if v, ok := lookup(n); ok && v != "" {
			return NewSecret(v), nil
		}
	}
	missing := fault.Errorf(fault.NotFound, "secret %q: no variable %s", name, prefix+envName(name))
	if len(names) > 0 {
		return Secret{}, missing.WithHint("set the environment variable %s, or %s for this tenant alone", prefix+envName(name), names[0])
	}
	return Secret{}, missing.WithHint("set the environment variable %s", prefix+envName(name))
}

// segments reports whether s is made of letters and digits, with one of the signs
// between two of them at most.
func segments(s, signs string) bool {
	sign := true
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9':
			sign = false
		case sign || strings.IndexByte(signs, c) < 0:
			return false
		default:
			sign = true
		}
	}
	return !sign
}

func envName(s string) string {
	return strings.NewReplacer("-", "_", ".", "_").Replace(strings.ToUpper(s))
}

// FileSecrets reads secrets from files, as orchestrators mount them: TENANT/NAME,
// and NAME for all tenants. A line break at the end is not part of the secret.
// Each call reads the file again, so a rotated secret counts from the next
// request.
type FileSecrets struct {
	FS fs.FS // os.DirFS or os.Root.FS of a directory that only this host reads
}

// Secret returns the secret's file.
func (f FileSecrets) Secret(_ context.Context, tenant, name string) (Secret, error) {
	if !plainName(name) || tenant != "" && !plainName(tenant) {
		return Secret{}, fault.Errorf(fault.NotFound, "secret %q: a secret and its tenant are named like files", name)
	}
	var paths []string
	if tenant != "" {
		paths = append(paths, tenant+"/"+name)
	}
	for _, p := range append(paths, name) {
		if v, err := readSecret(f.FS, p); err == nil {
			return NewSecret(v), nil
		}
	}
	return Secret{}, fault.Errorf(fault.NotFound, "secret %q: no file of that name", name)
}

// plainName refuses separators, and names that begin with a dot.
func plainName(s string) bool {
	return s != "" && s[0] != '.' && !strings.ContainsAny(s, "/\\\x00") && fs.ValidPath(s)
}

func readSecret(files fs.FS, path string) (string, error) {
	file, err := files.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxSecretBytes+2))
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), nil
}

// StaticSecrets are secrets in memory, for all tenants.
type StaticSecrets map[string]Secret

// Secret returns the secret of that name.
func (s StaticSecrets) Secret(_ context.Context, _, name string) (Secret, error) {
	if v, ok := s[name]; ok {
		return v, nil
	}
	return Secret{}, fault.Errorf(fault.NotFound, "secret %q does not exist", name)
}

var (
	_ Secrets = EnvSecrets{}
	_ Secrets = FileSecrets{}
	_ Secrets = StaticSecrets{}
)
