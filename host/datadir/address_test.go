package datadir_test

import (
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
)

func TestAddressesAreDirectoriesOrDatabases(t *testing.T) {
	for text, want := range map[string]struct {
		dir, shown string
		database   bool
	}{
		"":                   {"", "", false},
		"./data":             {"./data", "./data", false},
		"data/postgres.d":    {"data/postgres.d", "data/postgres.d", false},
		"a b://c":            {"a b://c", "a b://c", false},
		"/var/lib/agenthost": {"/var/lib/agenthost", "/var/lib/agenthost", false},
		"postgres://app:geheim@db:5433/app?sslmode=require":  {"", "postgres://app@db:5433/app", true},
		"postgresql://app@db/app?schema=two&password=geheim": {"", "postgresql://app@db/app?schema=two", true},
		"postgres:///app?host=/run/pg&user=me":               {"", "postgres:///app?host=%2Frun%2Fpg&user=me", true},
	} {
		a, err := datadir.ParseAddress(text)
		if err != nil || a.Dir() != want.dir || a.String() != want.shown || a.IsDatabase() != want.database || a.Text() != text {
			t.Errorf("ParseAddress(%q) = %+q, %v; want %+v", text, a, err, want)
		}
	}
}

// What is meant as an address and is none is refused, with the next step and without the
// password in it.
func TestAddressesThatAreNone(t *testing.T) {
	for text, hint := range map[string]string{
		"mysql://app:geheim@db/app":             "postgres://",
		"redis://:geheim@db":                    "postgres://",
		"file:///var/data":                      "the path of a directory",
		"postgres:app:geheim@db":                "postgres://",
		"postgres://app:geheim@db":              "/database",
		"postgres://app:geheim%zz@db/app":       "%XX",
		"postgres://app:12/geheim@db/app":       "%XX",
		"postgres://app:12#geheim@db/app":       "postgres://",
		"host=/run/pg user=app password=geheim": "postgres:///database?host=",
		"password=geheim":                       "postgres://",
		"data\x00":                              "the path of a directory",
		strings.Repeat("x", 5000):               "the path of a directory",
	} {
		_, err := datadir.ParseAddress(text)
		if host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), hint) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("ParseAddress(%q) = %v; want code invalid_argument, a hint with %q and no password", text, err, hint)
		}
	}
}

func TestVariablesHoldAddresses(t *testing.T) {
	env := map[string]string{
		datadir.Variable: "./usual", "DB": "postgres://app:geheim@db/app", "DIR": "./d", "LOOP": "env:DB", "BAD": "mysql://app:geheim@db/app",
	}
	getenv := func(name string) string { return env[name] }
	for text, want := range map[string]struct{ shown, flag string }{
		"":                             {"./usual", ""},
		"./here":                       {"./here", " --data ./here"},
		"env:DB":                       {"postgres://app@db/app", " --data env:DB"},
		"env:DIR":                      {"./d", " --data env:DIR"},
		"postgres://app:geheim@db/app": {"postgres://app@db/app", " --data postgres://app@db/app"},
	} {
		a, err := datadir.ResolveAddress(text, getenv)
		if err != nil || a.String() != want.shown || a.Flag() != want.flag {
			t.Errorf("ResolveAddress(%q) = %q, flag %q, %v; want %+v", text, a, a.Flag(), err, want)
		}
	}
	for _, text := range []string{"env:NONE", "env:", "env:LOOP", "env:BAD"} {
		if _, err := datadir.ResolveAddress(text, getenv); host.CodeOf(err) != host.InvalidArgument || strings.Contains(err.Error(), "geheim") {
			t.Errorf("ResolveAddress(%q) = %v; want code invalid_argument without a password", text, err)
		}
	}
	if a, err := datadir.ResolveAddress("", func(string) string { return "" }); err != nil || !a.InMemory() {
		t.Errorf("an address that is not given is %q, %v; want memory", a, err)
	}
}

// The sockets of hosts with one database are in one directory of this user's, those of
// another database in another.
func TestLocalDirIsThatOfTheData(t *testing.T) {
	getenv := func(name string) string { return map[string]string{"XDG_RUNTIME_DIR": "/run/user/7"}[name] }
	local := func(text string) string {
		a, err := datadir.ParseAddress(text)
		if err != nil {
			t.Fatal(err)
		}
		return a.LocalDir(getenv)
	}
	if got := local("./data"); got != "./data" {
		t.Errorf("of a directory: %q", got)
	}
	one := local("postgres://app:old@db/app")
	if !strings.HasPrefix(one, "/run/user/7/agenthost/") || one != local("postgres://app:new@db/app?sslmode=require") {
		t.Errorf("of a database: %q", one)
	}
	if two := local("postgres://app:old@db/app?schema=two"); two == one {
		t.Errorf("of another schema: %q", two)
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, seed := range []string{"", "./data", "postgres://u:geheim@h:1/d?password=geheim", "env:X", "postgres://%", "host=x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := datadir.ParseAddress(text)
		if err != nil {
			if host.CodeOf(err) != host.InvalidArgument {
				t.Errorf("ParseAddress(%q) = %v; want code invalid_argument", text, err)
			}
			return
		}
		if b, err := datadir.ParseAddress(a.Text()); err != nil || a != b {
			t.Errorf("ParseAddress(%q) gives %q, and that %q, %v", text, a, b, err)
		}
	})
}
