// Package egress sends HTTP requests for code that is not trusted, and is the
// only way out of the sandbox.
//
//	policy, err := egress.NewPolicy(&egress.Grants{
//		HTTP: []egress.Rule{{Host: "api.example.com", Methods: []string{"GET"}}},
//	})
//	client := egress.New(nil)
//	defer client.Close()
//	resp, err := client.Fetch(ctx, &egress.Request{Tenant: "acme", Policy: policy, URL: "https://api.example.com/v1"})
//
// A request that was not granted is refused, in this order: the URL is parsed
// and rewritten in its one canonical spelling (target.go); scheme, host, port
// and method are looked up in the policy (policy.go); the name is resolved here,
// and every address is checked just before it is dialed (address.go, dial.go),
// so that DNS rebinding gains nothing; each redirect starts again from the top
// (redirect.go). Secrets are put into headers last, by the host, towards servers
// that they are bound to, and redacted from the response (secret.go, redact.go).
//
// There is no proxy from the environment, no cookie jar, no user in a URL, and
// no connection that two tenants or two plugins share. Certificates are always
// verified.
package egress
