package egress_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/fault"
)

func TestPolicyAllows(t *testing.T) {
	p := policy(t, egress.Grants{HTTP: []egress.Rule{
		{Host: "API.Example.com."}, {Host: "*.cdn.example.com", Methods: []string{"get", "HEAD"}}, {Scheme: "HTTP", Host: "[2001:db8::1]", Port: 8080},
		{Host: "2001:DB8:0::2"}, {Host: "192.0.2.1"}, {Host: "xn--exmple-cua.com"},
	}})
	for _, row := range []struct {
		method, url string
		want        fault.Code
	}{
		{"GET", "https://api.example.com/x", ""}, {"DELETE", "https://api.example.com:443", ""}, {"GET", "HTTPS://API.EXAMPLE.COM./", ""},
		{"GET", "https://a.cdn.example.com/", ""}, {"HEAD", "https://a.b.cdn.example.com/", ""}, {"POST", "https://a.cdn.example.com/", fault.PermissionDenied},
		{"GET", "https://cdn.example.com/", fault.PermissionDenied}, {"GET", "https://xcdn.example.com/", fault.PermissionDenied},
		{"GET", "http://[2001:db8::1]:8080/", ""}, {"GET", "http://[2001:0db8:0:0::0001]:8080/", ""}, {"GET", "https://[2001:db8::2]/", ""},
		{"GET", "https://192.0.2.1/", ""}, {"GET", "https://192.0.2.2/", fault.PermissionDenied}, {"GET", "https://[::ffff:192.0.2.1]/", fault.PermissionDenied},
		{"GET", "https://xn--exmple-cua.com/", ""}, {"GET", "https://192.000.2.1/", fault.InvalidArgument}, {"get", "https://192.0.2.1/", fault.InvalidArgument},
	} {
		if err := p.Allows(row.method, row.url); fault.CodeOf(err) != row.want {
			t.Errorf("Allows(%s, %s) = %v, want %q", row.method, row.url, err, row.want)
		}
	}
	var none *egress.Policy
	wantError(t, none.Allows("GET", "https://a.test/"), fault.PermissionDenied)
	wantError(t, (&egress.Policy{}).Allows("GET", "https://a.test/"), fault.PermissionDenied)
}

func TestAnyNameIsNoAddress(t *testing.T) {
	p := policy(t, egress.Grants{HTTP: []egress.Rule{{Host: "*"}}})
	if err := p.Allows("GET", "https://anything.example/"); err != nil {
		t.Error(err)
	}
	for _, u := range []string{"https://8.8.8.8/", "https://[2606:4700::1]/"} {
		wantError(t, p.Allows("GET", u), fault.PermissionDenied)
	}
}

func TestRulesThatMeanNothingAreRefused(t *testing.T) {
	for _, r := range []egress.Rule{
		{}, {Host: "ftp://a.test"}, {Host: "a.test", Scheme: "ftp"}, {Host: "a.test", Port: -1}, {Host: "a.test", Port: 65536}, {Host: "a.test/path"},
		{Host: "a.test:80"}, {Host: "*.com"}, {Host: "*."}, {Host: "**"}, {Host: "a*.test"}, {Host: "a.*.test"}, {Host: "*.1.2.3.4"}, {Host: "127.1"},
		{Host: "0x7f.1"}, {Host: "ä.test"}, {Host: "a b"}, {Host: "fe80::1%eth0"}, {Host: "user@a.test"},
		{Host: "a.test", Methods: []string{"CONNECT"}}, {Host: "a.test", Methods: []string{"G T"}}, {Host: "a.test", Methods: []string{""}},
		{Host: "a.test", Addresses: []netip.Prefix{{}}},
	} {
		wantError(t, r.Validate(), fault.InvalidArgument, "http rule")
	}
	for _, s := range []egress.SecretRule{
		{}, {Name: "K"}, {Hosts: []string{"a.test"}}, {Name: "K", Hosts: []string{"*"}}, {Name: "K", Hosts: []string{"https://*"}},
		{Name: "K", Hosts: []string{"ftp://a.test"}}, {Name: "K", Hosts: []string{"https://a.test:0"}}, {Name: "K", Hosts: []string{"https://a.test:"}},
		{Name: "K", Hosts: []string{"https://a.test/"}}, {Name: "K", Hosts: []string{"a.test:"}}, {Name: "K", Hosts: []string{"a.test:x"}}, {Name: "K", Hosts: []string{""}}, {Name: "K", Hosts: []string{"https://::1"}},
		{Name: "K", Hosts: slices.Repeat([]string{"a.test"}, egress.MaxRules+1)},
	} {
		_, err := egress.NewPolicy(&egress.Grants{Secrets: []egress.SecretRule{s}})
		wantError(t, err, fault.InvalidArgument, "secret rule")
	}
	for _, h := range []string{"a.test", "*.a.test", "[::1]", "::1", "[::1]:443", "a.test:443", "http://[2001:db8::1]:80", "https://a.test", "http://a.test:8080", "192.0.2.1"} {
		if _, err := egress.NewPolicy(&egress.Grants{Secrets: []egress.SecretRule{{Name: "K", Hosts: []string{h}}}}); err != nil {
			t.Errorf("secret host %s: %v", h, err)
		}
	}
	_, err := egress.NewPolicy(&egress.Grants{HTTP: slices.Repeat([]egress.Rule{{Host: "a.test"}}, egress.MaxRules+1)})
	wantError(t, err, fault.InvalidArgument, "more than 256 rules")
}

func TestIntersect(t *testing.T) {
	ten := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, row := range []struct {
		asked, granted egress.Rule
		want           string
	}{
		{egress.Rule{Host: "a.x.test"}, egress.Rule{Host: "*.x.test"}, "https a.x.test 443 [] []"},
		{egress.Rule{Host: "*.x.test"}, egress.Rule{Host: "a.x.test"}, "https a.x.test 443 [] []"},
		{egress.Rule{Host: "*.a.x.test"}, egress.Rule{Host: "*.x.test", Methods: []string{"get"}}, "https *.a.x.test 443 [GET] []"},
		{egress.Rule{Host: "*"}, egress.Rule{Host: "*.x.test"}, "https *.x.test 443 [] []"},
		{egress.Rule{Host: "a.test", Methods: []string{"GET", "POST"}}, egress.Rule{Host: "a.test", Methods: []string{"POST", "PUT"}}, "https a.test 443 [POST] []"},
		{egress.Rule{Host: "a.test", Addresses: ten}, egress.Rule{Host: "a.test"}, "https a.test 443 [] []"},
		{egress.Rule{Host: "a.test"}, egress.Rule{Host: "a.test", Addresses: ten}, "https a.test 443 [] [10.0.0.0/8]"},
		{egress.Rule{Host: "a.test", Methods: []string{"GET"}}, egress.Rule{Host: "a.test", Methods: []string{"PUT"}}, ""},
		{egress.Rule{Host: "a.test"}, egress.Rule{Host: "b.test"}, ""},
		{egress.Rule{Host: "x.test"}, egress.Rule{Host: "*.x.test"}, ""},
		{egress.Rule{Host: "192.0.2.1"}, egress.Rule{Host: "*"}, ""},
		{egress.Rule{Host: "a.test", Port: 8443}, egress.Rule{Host: "a.test"}, ""},
		{egress.Rule{Host: "a.test", Scheme: "http"}, egress.Rule{Host: "a.test"}, ""},
		{egress.Rule{Host: "a b"}, egress.Rule{Host: "*"}, ""},
	} {
		got, ok := egress.Intersect(row.asked, row.granted)
		text := ""
		if ok {
			text = fmt.Sprint(got.Scheme, " ", got.Host, " ", got.Port, " ", got.Methods, " ", got.Addresses)
		}
		if text != row.want {
			t.Errorf("Intersect(%v, %v) = %q, want %q", row.asked, row.granted, text, row.want)
		}
	}
}

// What the intersection allows, both allow, and the other way round.
func TestIntersectIsTheIntersection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		asked, granted := drawRule(t, "asked"), drawRule(t, "granted")
		both, ok := egress.Intersect(asked, granted)
		method := rapid.SampledFrom([]string{"GET", "POST", "PUT"}).Draw(t, "method")
		u := fmt.Sprintf("%s://%s:%d/", rapid.SampledFrom([]string{"http", "https"}).Draw(t, "scheme"),
			strings.Replace(drawHost(t, "host"), "*", "star", 1), rapid.SampledFrom([]int{80, 443}).Draw(t, "port"))
		allows := func(r egress.Rule) bool {
			p, err := egress.NewPolicy(&egress.Grants{HTTP: []egress.Rule{r}})
			return err == nil && p.Allows(method, u) == nil
		}
		want := allows(asked) && allows(granted)
		if got := ok && allows(both); got != want {
			t.Fatalf("%s %s: the intersection %v allows it: %t; both of %v and %v do: %t", method, u, both, got, asked, granted, want)
		}
	})
}

func drawHost(t *rapid.T, label string) string {
	return rapid.SampledFrom([]string{"*", "x.test", "*.x.test", "a.x.test", "b.a.x.test", "*.a.x.test", "ax.test", "192.0.2.1"}).Draw(t, label)
}

func drawRule(t *rapid.T, label string) egress.Rule {
	return egress.Rule{
		Scheme:  rapid.SampledFrom([]string{"", "http", "https"}).Draw(t, label+" scheme"),
		Host:    drawHost(t, label+" host"),
		Port:    rapid.SampledFrom([]int{0, 80, 443}).Draw(t, label+" port"),
		Methods: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"GET", "POST", "PUT"}), 0, 3, rapid.ID).Draw(t, label+" methods"),
	}
}
