package keys_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/keys"
	"github.com/agenthost/agenthost/host/kv"
)

func TestRequestsAreAuthenticatedByBearer(t *testing.T) {
	s := open(t, kv.NewMemory(), nil)
	key, _ := create(t, s.Of("acme"))
	_, parent := create(t, s.Of("acme"))
	token, _, err := s.Of("acme").Mint(t.Context(), parent.ID, &keys.Token{Thread: "t", Origin: "https://app.example"})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		headers map[string][]string
		ok      bool
	}{
		"key":                {map[string][]string{"Authorization": {"Bearer " + key}}, true},
		"lower case":         {map[string][]string{"Authorization": {"bearer  " + key}}, true},
		"none":               {nil, false},
		"two":                {map[string][]string{"Authorization": {"Bearer " + key, "Bearer " + key}}, false},
		"basic":              {map[string][]string{"Authorization": {"Basic " + key}}, false},
		"no scheme":          {map[string][]string{"Authorization": {key}}, false},
		"token":              {map[string][]string{"Authorization": {"Bearer " + token}, "Origin": {"https://app.example"}}, true},
		"token, two origins": {map[string][]string{"Authorization": {"Bearer " + token}, "Origin": {"https://app.example", "https://app.example"}}, false},
		"token, no origin":   {map[string][]string{"Authorization": {"Bearer " + token}}, false},
		"token, same origin": {map[string][]string{"Authorization": {"Bearer " + token}, "Sec-Fetch-Site": {"same-origin"}}, true},
		"token, cross site":  {map[string][]string{"Authorization": {"Bearer " + token}, "Sec-Fetch-Site": {"cross-site"}}, false},
	} {
		r := httptest.NewRequest(http.MethodGet, "https://app.example/v1/runs", nil)
		r.TLS = &tls.ConnectionState{}
		for h, v := range c.headers {
			r.Header[h] = v
		}
		p, err := s.Authenticate(r)
		if c.ok && (err != nil || p.Tenant != "acme") || !c.ok && fault.CodeOf(err) != fault.Unauthenticated {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}

func TestFailuresAreCountedByConnection(t *testing.T) {
	s := open(t, kv.NewMemory(), &keys.Options{MaxFailures: 2})
	do := func(address string) error {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = address
		r.Header.Set("Authorization", "Bearer guess")
		_, err := s.Authenticate(r)
		return err
	}
	for range 2 {
		wantCode(t, "a guess", do("192.0.2.1:1234"), fault.Unauthenticated)
	}
	wantCode(t, "another port", do("192.0.2.1:999"), fault.ResourceExhausted)
	wantCode(t, "another address", do("192.0.2.2:999"), fault.Unauthenticated)
	wantCode(t, "no address", do("@"), fault.Unauthenticated)
}
