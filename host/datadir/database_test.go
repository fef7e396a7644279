package datadir_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/pgkvtest"
)

// with returns an address with a change.
func with(t *testing.T, address string, change func(*url.URL)) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	change(u)
	return u.String()
}

func setting(t *testing.T, address, key, value string) string {
	return with(t, address, func(u *url.URL) {
		q := u.Query()
		q.Set(key, value)
		u.RawQuery = q.Encode()
	})
}

// A database that a host cannot use is refused with a code, the cause and the next step,
// and without the password of its address.
func TestDatabasesThatAreNotFit(t *testing.T) {
	good := pgkvtest.URL(t)
	u, err := url.Parse(good)
	if err != nil {
		t.Fatal(err)
	}
	schema := u.Query().Get("schema")
	secret := with(t, good, func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), "geheim") })
	role := schema + "_poor"
	pgkvtest.Exec(t, "create role "+role+" login")
	t.Cleanup(func() { pgkvtest.Exec(t, "drop role "+role) })
	d, err := datadir.Open(t.Context(), good, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	newer := pgkvtest.URL(t)
	if d, err = datadir.Open(t.Context(), newer, nil); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	n, err := url.Parse(newer)
	if err != nil {
		t.Fatal(err)
	}
	pgkvtest.Exec(t, "insert into "+n.Query().Get("schema")+".versions (version) values (99)")
	for name, row := range map[string]struct {
		address string
		code    host.Code
		want    string
	}{
		"no such database":  {with(t, secret, func(u *url.URL) { u.Path = "/no_such_database" }), host.InvalidArgument, "create the database"},
		"no such role":      {with(t, secret, func(u *url.URL) { u.User = url.UserPassword("no_such_role", "geheim") }), host.PermissionDenied, "check the user"},
		"read only":         {setting(t, secret, "default_transaction_read_only", "on"), host.FailedPrecondition, "connect to the primary"},
		"a newer version":   {newer, host.FailedPrecondition, "use a newer program"},
		"without rights":    {with(t, secret, func(u *url.URL) { u.User = url.UserPassword(role, "geheim") }), host.PermissionDenied, "grant the role"},
		"a schema's name":   {setting(t, secret, "schema", "Not A Name"), host.InvalidArgument, "lower-case"},
		"an unknown option": {setting(t, secret, "connect_timeout", "never"), host.InvalidArgument, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := datadir.Open(t.Context(), row.address, nil)
			if err == nil {
				_ = d.Close()
			}
			if host.CodeOf(err) != row.code || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "geheim") {
				t.Errorf("Open = %v (%s); want code %s and %q, and no password", err, host.CodeOf(err), row.code, row.want)
			}
			var e *host.Error
			if !errors.As(err, &e) || e.Hint == "" {
				t.Errorf("%v has no next step", err)
			}
		})
	}
}

// Two hosts on one database see each other's threads, list the same tenants, and a tenant
// that one deletes is gone for the other.
func TestTwoHostsShareADatabase(t *testing.T) {
	address := pgkvtest.URL(t)
	open := func() *datadir.Dir {
		d, err := datadir.Open(t.Context(), address, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
	one, two := open(), open()
	for _, tenant := range []string{"acme", "globex"} {
		if _, _, err := threads.New(one.Driver, nil).For(tenant).Create(t.Context(), &threads.CreateOptions{ID: "t1"}); err != nil {
			t.Fatal(err)
		}
	}
	tenants := func(d *datadir.Dir) (names []string) {
		for name, err := range d.Tenants(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
		return names
	}
	if got := strings.Join(tenants(two), " "); got != "acme globex" {
		t.Errorf("the second host sees the tenants %q", got)
	}
	if err := one.Erasures(nil, nil, nil).Delete(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	if _, err := threads.New(two.Driver, nil).For("acme").Thread(t.Context(), "t1"); host.CodeOf(err) != host.NotFound {
		t.Errorf("the second host reads a thread of the deleted tenant: %v", err)
	}
	report, err := two.Erasures(nil, nil, nil).Prove(t.Context(), "acme")
	if err != nil || !report.Gone {
		t.Errorf("the second host proves %+v, %v", report, err)
	}
	v, err := two.Verify(t.Context(), func(int) {})
	if err != nil || v.Threads != 1 || len(v.Damaged) > 0 {
		t.Errorf("Verify = %+v, %v", v, err)
	}
}

// Hosts with another key, or with none, are refused where the data was first written with
// one, and change nothing.
func TestHostsOfADatabaseHaveOneKey(t *testing.T) {
	address := pgkvtest.URL(t)
	withKey := func(key string) error {
		d, err := datadir.Open(t.Context(), address, &datadir.Options{Getenv: func(name string) string {
			return map[string]string{datadir.KeyVariable: key}[name]
		}})
		if err != nil {
			return err
		}
		_, _, err = threads.New(d.Driver, nil).For("acme").Create(t.Context(), &threads.CreateOptions{ID: "t1"})
		return errors.Join(err, d.Close())
	}
	right := strings.Repeat("5a", 32)
	if err := withKey(right); err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]string{"another key": strings.Repeat("5b", 32), "no key": ""} {
		if err := withKey(key); host.CodeOf(err) != host.FailedPrecondition || !errors.Is(err, kv.ErrKey) {
			t.Errorf("a host with %s: %v; want code failed_precondition", name, err)
		}
	}
	if err := withKey(right); err != nil {
		t.Errorf("the right key again: %v", err)
	}
}

// What was changed in the tables is found, with the key of the entry.
func TestVerifyFindsAChangedRow(t *testing.T) {
	address := pgkvtest.URL(t)
	d, err := datadir.Open(t.Context(), address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	key := kv.NewKey("note")
	if _, err := kv.Apply(t.Context(), kv.Checked(d.Driver), kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put(key, []byte("what was stored"))}}); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	pgkvtest.Exec(t, "update "+u.Query().Get("schema")+".entries set value = set_byte(value, octet_length(value) - 1, 0)")
	v, err := d.Verify(t.Context(), func(int) {})
	if err != nil || len(v.Damaged) != 1 || v.Damaged[0].Error.Code != host.DataLoss || !strings.Contains(v.Damaged[0].Error.Message, "note") {
		t.Errorf("Verify = %+v, %v", v, err)
	}
}
