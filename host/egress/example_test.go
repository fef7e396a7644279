package egress_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/fault"
)

// A server on this machine answers here, so the rule grants its address; for a
// public one Host alone will do.
func Example() {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "you sent %s", r.Header.Get("Authorization"))
	}))
	defer srv.Close()
	u, _ := url.Parse(srv.URL)
	port, _ := strconv.Atoi(u.Port())

	client := egress.New(&egress.Options{Secrets: egress.StaticSecrets{"API_KEY": egress.NewSecret("sk-123456")}})
	defer client.Close()
	policy, err := egress.NewPolicy(&egress.Grants{
		HTTP: []egress.Rule{{Scheme: "http", Host: "127.0.0.1", Port: port, Methods: []string{"GET"},
			Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}},
		Secrets: []egress.SecretRule{{Name: "API_KEY", Hosts: []string{"http://127.0.0.1"}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := client.Fetch(context.Background(), &egress.Request{
		Tenant: "acme", Policy: policy, URL: srv.URL,
		Headers: []egress.Header{{Name: "Authorization", Prefix: "Bearer ", Secret: "API_KEY"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resp.Status, string(resp.Body))

	_, err = client.Fetch(context.Background(), &egress.Request{Tenant: "acme", Policy: policy, URL: "https://example.com/"})
	fmt.Println(fault.CodeOf(err))
	fmt.Println(err)
	// Output:
	// 200 you sent Bearer [redacted]
	// permission_denied
	// GET https://example.com:443 is not granted; grant http="GET https://example.com:443"
}

// What a name resolves to is for the operator, not for the plugin.
func ExampleAddressError() {
	client := egress.New(&egress.Options{Resolver: dns(map[string]string{"db.internal": "10.1.2.3"})})
	defer client.Close()
	policy, _ := egress.NewPolicy(&egress.Grants{HTTP: []egress.Rule{{Host: "db.internal"}}})
	_, err := client.Fetch(context.Background(), &egress.Request{Policy: policy, URL: "https://db.internal/"})
	fmt.Println(err)
	if detail := (*egress.AddressError)(nil); errors.As(err, &detail) {
		fmt.Println(detail)
	}
	// Output:
	// the host db.internal has an address that is not granted; grant its http rule the addresses that it may have
	// db.internal is at 10.1.2.3, a private address; to allow it, let the grant of its host end in: at 10.1.2.3
}
