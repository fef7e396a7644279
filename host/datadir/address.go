package datadir

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/internal/termtext"
)

// Variable holds the address of the data of commands that are given none.
const Variable = "AGENTHOST_DATA"

// variablePrefix begins an address that a variable holds.
const variablePrefix = "env:"

// maxAddressBytes bounds an address.
const maxAddressBytes = 4096

// Address says where data is kept: in a directory, in a PostgreSQL database or, as the
// zero Address, in memory. It is comparable.
type Address struct {
	dir      string
	database string // with its password
	variable string // that held it, if one did
}

// ParseAddress reads the address of data: the path of a directory, or
// postgres://user:password@host:5432/database; "" is memory. Code invalid_argument for
// text that is probably meant as another address; the error repeats no password.
func ParseAddress(text string) (Address, error) {
	if len(text) > maxAddressBytes {
		return Address{}, host.Errorf(host.InvalidArgument, "the address of the data has %d bytes, more than %d", len(text), maxAddressBytes).WithHint(addressHint)
	}
	scheme, _, hasScheme := strings.Cut(text, "://")
	switch {
	case strings.ContainsRune(text, 0):
		return Address{}, host.Errorf(host.InvalidArgument, "the address of the data contains a zero byte").WithHint(addressHint)
	case hasScheme && (scheme == "postgres" || scheme == "postgresql"):
		return parseDatabase(text)
	case hasScheme && isScheme(scheme):
		return Address{}, host.Errorf(host.InvalidArgument, "data cannot be kept at an address that begins with %s://", scheme).WithHint(addressHint)
	case strings.HasPrefix(text, "postgres:"), strings.HasPrefix(text, "postgresql:"):
		return Address{}, host.Errorf(host.InvalidArgument, "the address of a database begins with postgres://").WithHint(addressHint)
	case isKeywords(text):
		return Address{}, host.Errorf(host.InvalidArgument, "the address of the data is a list of keywords").
			WithHint("write it as postgres://user:password@host:5432/database; the directory of a socket is named so: postgres:///database?host=/run/postgresql")
	}
	return Address{dir: text}, nil
}

const addressHint = "it is the path of a directory, or an address such as postgres://user:password@host:5432/database"

// isScheme reports whether s can begin a URL; otherwise it is part of a path.
func isScheme(s string) bool {
	for i, r := range s {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z':
		case i > 0 && ('0' <= r && r <= '9' || strings.ContainsRune("+-.", r)):
		default:
			return false
		}
	}
	return s != ""
}

// isKeywords reports whether text is a connection string such as "host=db user=app".
func isKeywords(text string) bool {
	for _, key := range []string{"host=", "dbname=", "user=", "password=", "port=", "service="} {
		if strings.HasPrefix(strings.TrimSpace(text), key) {
			return true
		}
	}
	return false
}

func parseDatabase(text string) (Address, error) {
	u, err := url.Parse(text)
	if err != nil { // its text quotes the address
		return Address{}, host.Errorf(host.InvalidArgument, "the address of the database cannot be read").
			WithHint("it is like postgres://user:password@host:5432/database; write special characters of the password as %%XX")
	}
	if strings.Contains(u.Path, "@") || u.Fragment != "" { // the end of a password
		return Address{}, host.Errorf(host.InvalidArgument, "the address of the database cannot be read").
			WithHint("it is like postgres://user:password@host:5432/database; write special characters of the password as %%XX")
	}
	if strings.Trim(u.Path, "/") == "" && u.Query().Get("dbname") == "" {
		return Address{}, host.Errorf(host.InvalidArgument, "the address of the database names no database").WithHint("it is like postgres://user:password@host:5432/database")
	}
	return Address{database: text}, nil
}

// ResolveAddress reads the address that a command line names: that of [ParseAddress], or
// env:NAME for the address in the variable NAME, which keeps a password out of the list
// of processes; "" is the address in [Variable], if it is set. Code invalid_argument if
// the variable that env: names is not set.
func ResolveAddress(text string, getenv func(string) string) (Address, error) {
	name, named := strings.CutPrefix(text, variablePrefix)
	if text == "" {
		name = Variable
	} else if !named {
		return ParseAddress(text)
	}
	value := getenv(name)
	switch {
	case value == "" && named:
		return Address{}, host.Errorf(host.InvalidArgument, "the environment variable %.80q is not set", name).
			WithHint("set it to the path of a directory, or to an address such as postgres://user:password@host:5432/database")
	case strings.HasPrefix(value, variablePrefix):
		return Address{}, host.Errorf(host.InvalidArgument, "the environment variable %.80q names another variable", name).WithHint("set it to the address itself")
	}
	a, err := ParseAddress(value)
	if err != nil {
		return Address{}, host.Errorf(host.CodeOf(err), "the environment variable %.80q: %w", name, err).WithHint(addressHint)
	}
	a.variable = name
	return a, nil
}

// InMemory reports whether nothing is kept.
func (a Address) InMemory() bool { return a.dir == "" && a.database == "" }

// Dir returns the path of the directory; "" for memory and for a database.
func (a Address) Dir() string { return a.dir }

// IsDatabase reports whether the data is in a database.
func (a Address) IsDatabase() bool { return a.database != "" }

// Text returns the address as [ParseAddress] reads it. It may contain a password: do not
// print it.
func (a Address) Text() string {
	if a.database != "" {
		return a.database
	}
	return a.dir
}

// String returns the address for people: without a password and without the settings of
// connections.
func (a Address) String() string {
	if a.database == "" {
		return a.dir
	}
	u, err := url.Parse(a.database)
	if err != nil {
		return "postgres://"
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if name := u.User.Username(); name != "" {
		shown.User = url.User(name)
	}
	kept := url.Values{} // of the settings, those that say which data is meant
	for _, key := range []string{"host", "port", "dbname", "user", "schema"} {
		if value := u.Query().Get(key); value != "" {
			kept.Set(key, value)
		}
	}
	shown.RawQuery = kept.Encode()
	return shown.String()
}

// Flag returns the flag that gives a command this address, without a password, after a
// space; "" if the command reads the address from [Variable], and in memory.
func (a Address) Flag() string {
	switch {
	case a.InMemory(), a.variable == Variable:
		return ""
	case a.variable != "":
		return " --data " + variablePrefix + termtext.ShellWord(a.variable)
	}
	return " --data " + termtext.ShellWord(a.String())
}

// LocalDir returns the directory on this machine for the sockets of a host with the data:
// the data directory or, for a database, one of this user's that depends on the server,
// the database and the schema; "" for memory, and if this user has no such directory. It
// makes no directory.
func (a Address) LocalDir(getenv func(string) string) string {
	if a.database == "" {
		return a.dir
	}
	base := getenv("XDG_RUNTIME_DIR")
	if base == "" {
		base = getenv("AGENTHOST_CACHE")
	}
	if base == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return ""
		}
		base = cache
	}
	sum := sha256.Sum256([]byte(a.String()))
	return filepath.Join(base, "agenthost", "hosts", hex.EncodeToString(sum[:6]))
}
