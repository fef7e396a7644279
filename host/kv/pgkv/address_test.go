package pgkv_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/pgkv"
	"github.com/agenthost/agenthost/internal/pgkvtest"
)

// hasty does not wait for a server.
func hasty() *pgkv.Options { return &pgkv.Options{Patience: time.Millisecond} }

func TestABadAddressIsRefusedWithAnErrorThatSaysWhatToWrite(t *testing.T) {
	for name, c := range map[string]struct {
		address string
		is      error
		says    string
	}{
		"a directory":            {"/var/lib/agenthost", kv.ErrInvalid, "it is like postgres://"},
		"empty":                  {"", kv.ErrInvalid, "it is like postgres://"},
		"another protocol":       {"mysql://root@localhost/db", kv.ErrInvalid, "it is like postgres://"},
		"a bad port":             {"postgres://u:secret@localhost:port/db", kv.ErrInvalid, "cannot be read"},
		"a bad sslmode":          {"postgres://u:secret@localhost/db?sslmode=sometimes", kv.ErrInvalid, "cannot be read"},
		"a bad schema":           {"postgres://u:secret@localhost/db?schema=No%20Such", kv.ErrInvalid, "lower-case letters"},
		"nothing listens":        {"postgres://u:secret@127.0.0.1:1/db", kv.ErrUnavailable, "connection refused"},
		"no socket":              {"host=/nowhere user=u password=secret dbname=db", kv.ErrUnavailable, "no such socket"},
		"a host without address": {"postgres://u:secret@no-such-host.invalid/db", kv.ErrUnavailable, "check the address"},
	} {
		t.Run(name, func(t *testing.T) {
			err := openError(t, c.address, c.says)
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") {
				t.Errorf("Open = %v, want %v that says %q", err, c.is, c.says)
			}
		})
	}
}

// openError returns the error of Open. A machine that is busy may not get as far as the
// cause in the time that one attempt has: then the store gets more.
func openError(t *testing.T, address, says string) (err error) {
	t.Helper()
	for patience := time.Millisecond; patience < time.Minute; patience *= 10 {
		var s *pgkv.Store
		if s, err = pgkv.Open(t.Context(), address, &pgkv.Options{Patience: patience}); err == nil {
			_ = s.Close()
			return nil
		}
		if strings.Contains(err.Error(), says) {
			break
		}
	}
	return err
}

// A password is in no error, whatever is wrong with the address around it.
func FuzzErrorsHaveNoPassword(f *testing.F) {
	const password = "hunter2-Zq9"
	for _, seed := range []string{
		"postgres://u:%s@127.0.0.1:1/db", "postgres://u:%s@/db", "postgres://u:%s@127.0.0.1:port/db", "postgres://%s", "%s",
		"host=127.0.0.1 port=1 password=%s", "host=127.0.0.1 password='%s", "password=%s sslmode=x", "postgres://u:%s%%zz@h/db",
		"postgres://u:%s@127.0.0.1:1/db?sslmode=verify-full&sslrootcert=/nowhere", "postgres://u@127.0.0.1:1/db?password=%s",
		"postgres://u:p@127.0.0.1:1/db?schema=%s", "postgres://u:%s@127.0.0.1:1,127.0.0.1:2/db", "postgres://u:%s@[::1/db",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, form string) {
		if !strings.Contains(form, "%s") || strings.Contains(form, password[:4]) {
			return
		}
		address := strings.Replace(form, "%s", password, 1)
		if config, err := pgx.ParseConfig(address); err == nil && (config.Password != password && !strings.Contains(address, "schema=") ||
			!strings.HasPrefix(config.Host, "127.0.0.1") || config.Port > 2) {
			return // it is no password there, or the address of a server that may exist
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s, err := pgkv.Open(ctx, address, hasty())
		if err == nil {
			_ = s.Close()
			return
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			for _, text := range []string{e.Error(), fmt.Sprintf("%+v", e), fmt.Sprintf("%#v", e)} {
				if strings.Contains(text, password) {
					t.Fatalf("the error has the password: %s", text)
				}
			}
		}
	})
}

// asRole returns the address of a store for a role of the test's own, with what SQL
// grants it.
func asRole(t *testing.T, address, options, grants string) string {
	t.Helper()
	config, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	schema := config.RuntimeParams["schema"]
	role := "role_" + schema
	in := strings.NewReplacer("{role}", role, "{schema}", schema, "{database}", config.Database)
	pgkvtest.Exec(t, in.Replace("create role {role} login password 'hunter2' "+options))
	t.Cleanup(func() { pgkvtest.Exec(t, in.Replace("drop owned by {role}; drop role {role}")) })
	if grants != "" {
		pgkvtest.Exec(t, in.Replace(grants))
	}
	if pgkv.IsAddress(address) {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(role, "hunter2")
		return u.String()
	}
	return strings.ReplaceAll(address, "user="+config.User, "user="+role+" password=hunter2")
}

const dataRights = `grant usage on schema {schema} to {role}; grant select, insert, update, delete on all tables in schema {schema} to {role}`

func TestARoleWithRightsOnTheDataSuffices(t *testing.T) {
	address := pgkvtest.Address(t)
	owner := mustOpen(t, address, nil)
	fill(t, owner, "leaves", 10)
	s := mustOpen(t, asRole(t, address, "", dataRights), &pgkv.Options{MigrationsDisabled: true})
	mustPut(t, s, "new tenant", "k", "v")
	if err := s.Erase(t.Context(), "leaves"); err != nil {
		t.Errorf("Erase: %v", err)
	}
	if p, err := s.Prove(t.Context(), "leaves"); err != nil || !p.Gone() {
		t.Errorf("Prove = %+v, %v", p, err)
	}
	changed := mustWatch(t, s, "acme")
	mustPut(t, owner, "acme", "k", "v")
	wantWoken(t, changed)
}

func TestARoleThatMayCreateTheSchemaMakesIt(t *testing.T) {
	s := mustOpen(t, asRole(t, pgkvtest.Address(t), "", `grant create on database {database} to {role}`), nil)
	mustPut(t, s, "acme", "k", "v")
}

func TestARoleWithoutRightsIsDenied(t *testing.T) {
	for name, c := range map[string]struct {
		made   bool
		grants string
	}{
		"it may not make a schema":    {false, ""},
		"it may not use the schema":   {true, ""},
		"it may not write the tables": {true, `grant usage on schema {schema} to {role}; grant select on all tables in schema {schema} to {role}`},
	} {
		t.Run(name, func(t *testing.T) {
			address := pgkvtest.Address(t)
			if c.made {
				mustOpen(t, address, nil)
			}
			s, err := pgkv.Open(t.Context(), asRole(t, address, "", c.grants), nil)
			if err == nil {
				defer s.Close()
				_, err = kv.Apply(t.Context(), s, kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put("k", nil)}})
			}
			if !errors.Is(err, kv.ErrDenied) || !strings.Contains(err.Error(), "grant the role") {
				t.Errorf("error %v, want kv.ErrDenied that says what to grant", err)
			}
		})
	}
}

func TestADatabaseThatTakesNoWritesIsReadOnly(t *testing.T) {
	address := pgkvtest.Address(t)
	mustOpen(t, address, nil)
	readOnly := asRole(t, address, "", dataRights+`; alter role {role} set default_transaction_read_only = on`)
	if s, err := pgkv.Open(t.Context(), readOnly, nil); !errors.Is(err, kv.ErrReadOnly) {
		if err == nil {
			_ = s.Close()
		}
		t.Errorf("Open = %v, want kv.ErrReadOnly", err)
	}
}

func TestADatabaseThatBecomesReadOnlyIsStillRead(t *testing.T) {
	address := pgkvtest.Address(t)
	s := mustOpen(t, address, nil)
	mustPut(t, s, "acme", "k", "v")
	if err := pgkv.SetReadOnly(s); err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Apply(t.Context(), s, kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put("k", nil)}}); !errors.Is(err, kv.ErrReadOnly) {
		t.Errorf("Commit = %v, want kv.ErrReadOnly", err)
	}
	if e, err := s.Get(t.Context(), "acme", "k"); err != nil || string(e.Value) != "v" {
		t.Errorf("Get = %q, %v", e.Value, err)
	}
}

func TestTablesOfAnotherVersionAreRefused(t *testing.T) {
	address := pgkvtest.Address(t)
	if s, err := pgkv.Open(t.Context(), address, &pgkv.Options{MigrationsDisabled: true}); !errors.Is(err, kv.ErrFormat) {
		if err == nil {
			_ = s.Close()
		}
		t.Errorf("Open without tables and migrations = %v, want kv.ErrFormat", err)
	}
	mustOpen(t, address, nil)
	config, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	pgkvtest.Exec(t, "insert into "+config.RuntimeParams["schema"]+".versions (version) values (1000)")
	_, err = pgkv.Open(t.Context(), address, nil)
	if !errors.Is(err, kv.ErrFormat) || !strings.Contains(err.Error(), "newer program") || !strings.Contains(err.Error(), "Nothing was changed") {
		t.Errorf("Open of newer tables = %v, want kv.ErrFormat that says what to do", err)
	}
}

func TestStoresThatMakeTheTablesAtTheSameTimeAllOpen(t *testing.T) {
	address := pgkvtest.Address(t)
	opened := make(chan error)
	const stores = 6
	for range stores {
		go func() {
			s, err := pgkv.Open(t.Context(), address, nil)
			if err == nil {
				_, err = kv.Apply(t.Context(), s, kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put("k", nil)}})
				_ = s.Close()
			}
			opened <- err
		}()
	}
	for range stores {
		if err := <-opened; err != nil {
			t.Error(err)
		}
	}
}

func TestOpenSaysHowOftenItTriedToReachADatabase(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	for name, c := range map[string]struct {
		address string
		says    []string
	}{
		"nothing listens":         {"postgres://u:secret@127.0.0.1:1/db", []string{"attempts to connect in ", "connection refused"}},
		"a server without a word": {"postgres://u:secret@" + silent.Addr().String() + "/db?sslmode=disable", []string{"1 attempts to connect in ", "did not answer in time"}},
	} {
		t.Run(name, func(t *testing.T) {
			begun := time.Now()
			var err error
			for patience := 100 * time.Millisecond; patience <= pgkv.OpenPatience; patience *= 5 { // in which there is a second attempt, however busy the machine
				_, err = pgkv.Open(t.Context(), c.address, &pgkv.Options{Patience: patience})
				if err == nil || strings.Contains(err.Error(), c.says[0]) && strings.Contains(err.Error(), c.says[1]) {
					break
				}
			}
			if !errors.Is(err, kv.ErrUnavailable) {
				t.Fatalf("Open = %v, want unavailable", err)
			}
			for _, text := range c.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("Open = %q, want %q in it", err, text)
				}
			}
			if took := time.Since(begun); took > time.Minute {
				t.Errorf("Open took %s", took)
			}
		})
	}
}
