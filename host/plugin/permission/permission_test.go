package permission

import (
	"encoding/json"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

func TestHTTPAccessMeets(t *testing.T) {
	for _, row := range []struct{ name, asked, granted, want string }{
		{"the same", `{"host":"a.example"}`, `{"host":"a.example"}`, `[{"host":"a.example"}]`},
		{"another host", `{"host":"a.example"}`, `{"host":"b.example"}`, `null`},
		{"hosts have no case, and may end in a dot", `{"host":"A.example"}`, `{"host":"a.EXAMPLE."}`, `[{"host":"A.example"}]`},
		{"another scheme", `{"host":"a.example"}`, `{"host":"a.example","scheme":"http"}`, `null`},
		{"the scheme's port", `{"host":"a.example"}`, `{"host":"a.example","port":443}`, `[{"host":"a.example"}]`},
		{"another port", `{"host":"a.example"}`, `{"host":"a.example","port":8443}`, `null`},
		{"methods in common", `{"host":"a.example","methods":["GET","PUT"]}`, `{"host":"a.example","methods":["GET","POST"]}`, `[{"scheme":"https","host":"a.example","port":443,"methods":["GET"]}]`},
		{"no method in common", `{"host":"a.example","methods":["PUT"]}`, `{"host":"a.example","methods":["GET"]}`, `null`},
		{"asked for all methods", `{"host":"a.example"}`, `{"host":"a.example","methods":["GET"]}`, `[{"scheme":"https","host":"a.example","port":443,"methods":["GET"]}]`},
		{"granted all names below", `{"host":"a.b.example"}`, `{"host":"*.b.example"}`, `[{"host":"a.b.example"}]`},
		{"a name is not below itself", `{"host":"b.example"}`, `{"host":"*.b.example"}`, `null`},
		{"nor is one that only ends like it", `{"host":"evilb.example"}`, `{"host":"*.b.example"}`, `null`},
		{"asked for all names below", `{"host":"*.b.example"}`, `{"host":"a.b.example"}`, `[{"scheme":"https","host":"a.b.example","port":443}]`},
		{"asked for every host", `{"host":"*"}`, `{"host":"a.example"}`, `[{"scheme":"https","host":"a.example","port":443}]`},
		{"granted every host", `{"host":"a.example"}`, `{"host":"*"}`, `[{"host":"a.example"}]`},
	} {
		t.Run(row.name, func(t *testing.T) {
			var asked, granted HTTP
			var want []HTTP
			for _, read := range []struct {
				raw  string
				into any
			}{{row.asked, &asked}, {row.granted, &granted}, {row.want, &want}} {
				if err := json.Unmarshal([]byte(read.raw), read.into); err != nil {
					t.Fatal(err)
				}
			}
			got := Set{HTTP: []HTTP{asked}}.Clamp(Set{HTTP: []HTTP{granted}}).HTTP
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("clamp: (-want +got)\n%s", diff)
			}
		})
	}
}

func TestToolsOfPermissionsMeet(t *testing.T) {
	for _, row := range []struct {
		name                 string
		asked, granted, want []string
		missing              []string
	}{
		{"the same", []string{"look"}, []string{"look"}, []string{"look"}, nil},
		{"another", []string{"look"}, []string{"pay"}, nil, []string{"tools=look"}},
		{"one in common", []string{"look", "pay"}, []string{"pay", "send"}, []string{"pay"}, []string{"tools=look"}},
		{"granted each", []string{"look"}, []string{"*"}, []string{"look"}, nil},
		{"asked for each", []string{"*"}, []string{"look"}, []string{"look"}, []string{"tools=*"}},
		{"none granted", []string{"*"}, nil, nil, []string{"tools=*"}},
	} {
		asked, granted := Set{Tools: row.asked}, Set{Tools: row.granted}
		clamped := asked.Clamp(granted)
		if diff := cmp.Diff(row.want, clamped.Tools); diff != "" {
			t.Errorf("%s: clamp (-want +got):\n%s", row.name, diff)
		}
		if diff := cmp.Diff(row.missing, asked.Missing(granted)); diff != "" {
			t.Errorf("%s: missing (-want +got):\n%s", row.name, diff)
		}
		for _, tool := range []string{"look", "pay", "send"} {
			if clamped.MayCall(tool) && (!asked.MayCall(tool) || !granted.MayCall(tool)) {
				t.Errorf("%s: %s may be called", row.name, tool)
			}
		}
	}
	for _, name := range []string{"", "a b", "**", "a.b", "ä"} {
		if (&Set{Tools: []string{name}}).Check() == nil {
			t.Errorf("check takes the tool %q", name)
		}
	}
}

func TestHostsOfPermissionsAreChecked(t *testing.T) {
	check := func(host string) error { return (&Set{HTTP: []HTTP{{Host: host}}}).Check() }
	for _, host := range []string{"a.example", "A.Example.", "*.a.example", "*", "127.0.0.1", "::1", "[::1]", "localhost", "xn--bcher-kva.example"} {
		if err := check(host); err != nil {
			t.Errorf("check(%q): %v", host, err)
		}
	}
	for _, host := range []string{"", "a:80", "https://a", "a/b", "u@a", "a b", "a?b", "a#b", "*a", "a.*.b", "**", "*.", "a\n", "%61", `a\b`} {
		if check(host) == nil {
			t.Errorf("check(%q) takes it", host)
		}
	}
}

func TestSecretsMeet(t *testing.T) {
	for _, row := range []struct {
		name           string
		asked, granted string
		want           string
	}{
		{"the same host", "a.example", "A.example", "a.example"},
		{"a host below", "*.a.example", "x.a.example", "x.a.example"},
		{"another host", "a.example", "b.example", ""},
		{"granted one port", "a.example", "https://a.example:8443", "https://a.example:8443"},
		{"asked for one port", "https://a.example:8443", "a.example", "https://a.example:8443"},
		{"another port", "https://a.example:1", "https://a.example:2", ""},
		{"plain http is not https", "http://a.example", "a.example", ""},
		{"plain http on both sides", "http://a.example", "http://a.example:80", "http://a.example:80"},
		{"an address", "https://[::1]:8443", "::1", "https://[::1]:8443"},
	} {
		t.Run(row.name, func(t *testing.T) {
			asked, granted := Secret{"K", []string{row.asked}}, Secret{"K", []string{row.granted}}
			got, some := asked.meet(granted)
			if some != (row.want != "") || some && got.Hosts[0] != row.want {
				t.Errorf("meet = %v, %v, want %q", got, some, row.want)
			}
			if _, other := asked.meet(Secret{"L", granted.Hosts}); other {
				t.Error("two secrets meet")
			}
		})
	}
}

func TestAddressesAreTheOperators(t *testing.T) {
	prefixes := func(list ...string) (out []netip.Prefix) {
		for _, p := range list {
			out = append(out, netip.MustParsePrefix(p))
		}
		return out
	}
	at := func(list ...string) Set {
		return Set{HTTP: []HTTP{{Host: "a.example", Addresses: prefixes(list...)}}}
	}
	for _, row := range []struct {
		name                    string
		asked, granted, ceiling Set
		want                    []netip.Prefix
	}{
		{"what a manifest asks for means nothing", at("127.0.0.0/8"), at(), at("0.0.0.0/0"), nil},
		{"what is granted", at(), at("10.1.0.0/16"), at("10.0.0.0/8", "127.0.0.0/8"), prefixes("10.1.0.0/16")},
		{"the ceiling's part of it", at(), at("10.0.0.0/8"), at("10.1.0.0/16"), prefixes("10.1.0.0/16")},
		{"nothing under a ceiling without addresses", at(), at("10.0.0.0/8"), at(), nil},
		{"no metadata of a range that only holds it", at(), at("169.254.0.0/16"), at("169.254.169.254/32", "169.254.1.0/24"), prefixes("169.254.1.0/24")},
		{"no metadata under a ceiling that only holds it", at(), at("169.254.169.254/32"), at("169.254.0.0/16"), nil},
		{"metadata by its own address in both", at(), at("169.254.169.254/32"), at("169.254.169.254/32"), prefixes("169.254.169.254/32")},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := row.asked.Clamp(row.granted.Under(row.ceiling)).HTTP
			if len(got) != 1 || !slices.Equal(got[0].Addresses, row.want) {
				t.Errorf("got %+v, want addresses %v", got, row.want)
			}
		})
	}
}

func TestWidens(t *testing.T) {
	next := Set{KV: Write, State: Read, Model: true, Clock: true, HTTP: []HTTP{{Host: "a.example"}, {Host: "b.example", Methods: []string{"GET"}}}, Secrets: []Secret{{"KEY", []string{"a.example"}}}}
	before := Set{KV: Read, State: Write, HTTP: []HTTP{{Host: "b.example"}}}
	want := []string{"kv=write", "model", "clock", "http=https://a.example", "secret=KEY@https://a.example"}
	if diff := cmp.Diff(want, next.Widens(before)); diff != "" {
		t.Errorf("Widens: (-want +got)\n%s", diff)
	}
	granted := Set{KV: Write, Model: true, Clock: true, HTTP: []HTTP{{Host: "*"}}, Secrets: []Secret{{"KEY", []string{"a.example"}}}}
	if got := next.Widens(before, granted); len(got) > 0 {
		t.Errorf("beyond what was granted since, Widens = %v", got)
	}
}

var (
	someAccess     = rapid.SampledFrom([]Access{"", None, Read, Write})
	someHost       = rapid.SampledFrom([]string{"a.example", "b.a.example", "*.a.example", "*.b.a.example", "*", "c.example", "127.0.0.1"})
	someSecretHost = rapid.SampledFrom([]string{"a.example", "*.a.example", "https://a.example:8443", "http://b.a.example"})
	someHTTP       = rapid.Custom(func(t *rapid.T) HTTP {
		return HTTP{
			Scheme: rapid.SampledFrom([]string{"", "http", "https"}).Draw(t, "scheme"), Host: someHost.Draw(t, "host"),
			Port:    rapid.SampledFrom([]int{0, 80, 443}).Draw(t, "port"),
			Methods: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"GET", "PUT", "POST"}), 0, 2, rapid.ID).Draw(t, "methods"),
		}
	})
	someSecret = rapid.Custom(func(t *rapid.T) Secret {
		return Secret{rapid.SampledFrom([]string{"K", "L"}).Draw(t, "name"), rapid.SliceOfNDistinct(someSecretHost, 1, 3, rapid.ID).Draw(t, "hosts")}
	})
	somePermissions = rapid.Custom(func(t *rapid.T) Set {
		flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
		return Set{
			KV: someAccess.Draw(t, "kv"), State: someAccess.Draw(t, "state"), Model: flag("model"), Messages: flag("messages"),
			Queue: flag("queue"), Clock: flag("clock"), Random: flag("random"),
			HTTP: rapid.SliceOfN(someHTTP, 0, 4).Draw(t, "http"), Secrets: rapid.SliceOfN(someSecret, 0, 3).Draw(t, "secrets"),
		}
	})
)

// What comes out of a clamp is asked for and granted; clamping again changes
// nothing; and whatever single request either side forbids, it forbids.
func TestClampIsAnIntersection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		asked, granted := somePermissions.Draw(t, "asked"), somePermissions.Draw(t, "granted")
		both := asked.Clamp(granted)
		if w := both.Widens(asked); len(w) > 0 {
			t.Fatalf("%+v has %v that was not asked for", both, w)
		}
		if w := both.Widens(granted); len(w) > 0 {
			t.Fatalf("%+v has %v that was not granted", both, w)
		}
		if again := both.Clamp(both); len(both.Widens(again)) > 0 {
			t.Fatalf("clamped again %+v becomes %+v", both, again)
		}
		one := HTTP{
			Scheme: rapid.SampledFrom([]string{"http", "https"}).Draw(t, "scheme"), Port: rapid.SampledFrom([]int{80, 443}).Draw(t, "port"),
			Host:    rapid.SampledFrom([]string{"a.example", "b.a.example", "c.example", "x.y", "127.0.0.1"}).Draw(t, "host"),
			Methods: []string{rapid.SampledFrom([]string{"GET", "PUT", "POST"}).Draw(t, "method")},
		}
		in := func(p Set) bool { return slices.ContainsFunc(p.HTTP, one.within) }
		if in(both) != (in(asked) && in(granted)) {
			t.Fatalf("%s: asked %v, granted %v, in both %v", one, in(asked), in(granted), in(both))
		}
	})
}

// FuzzGrants reads permissions as a manifest and a configuration have them:
// what is taken can be clamped, is never wider than itself, and survives being
// written.
func FuzzGrants(f *testing.F) {
	f.Add([]byte(`{"kv":"write","http":[{"host":"a.example","methods":["GET"]}],"secrets":[{"name":"K","hosts":["a.example"]}]}`), []byte(`{"kv":"read","http":[{"host":"*"}]}`))
	f.Add([]byte(`{"state":"none","http":[{"scheme":"HTTP","host":"[::1]","port":8080}]}`), []byte(`{}`))
	f.Add([]byte(`{"kv":"everything"}`), []byte(`{"http":[{"host":"*.*"}]}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var asked, granted Set
		if jsondoc.Unmarshal(a, &asked) != nil || asked.Check() != nil || jsondoc.Unmarshal(b, &granted) != nil || granted.Check() != nil {
			return
		}
		both := asked.Clamp(granted)
		if _, err := both.Policy(); err != nil {
			t.Errorf("the clamp %+v makes no policy: %v", both, err)
		}
		if w := append(both.Widens(asked), both.Widens(granted)...); len(w) > 0 {
			t.Errorf("the clamp %+v is wider by %v", both, w)
		}
		raw, err := json.Marshal(both)
		var back Set
		if err != nil || jsondoc.Unmarshal(raw, &back) != nil || len(back.Widens(both))+len(both.Widens(back)) > 0 {
			t.Errorf("%+v is written as %s and read as %+v, %v", both, raw, back, err)
		}
	})
}
