package keys_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/keys"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/internal/testdriver"
)

func open(t testing.TB, d kv.Driver, opts *keys.Options) *keys.Store {
	t.Helper()
	s := keys.New(d, opts)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func create(t testing.TB, r *keys.Keyring, scopes ...string) (string, *keys.Key) {
	t.Helper()
	credential, key, err := r.Create(t.Context(), &keys.Spec{Name: "test", Scopes: scopes})
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	return credential, key
}

func wantCode(t testing.TB, doing string, err error, code fault.Code) {
	t.Helper()
	if got := fault.CodeOf(err); err == nil || got != code {
		t.Errorf("%s: %v (code %q), want code %q", doing, err, got, code)
	}
}

func TestKeyNamesItsTenantAndScopes(t *testing.T) {
	s := open(t, testdriver.New(t), nil)
	credential, key := create(t, s.Of("acme"), "runs:write", "threads:read")
	if !strings.HasPrefix(credential, "ah_live_"+key.ID+"_") || len(credential) != len("ah_live_")+8+1+43 {
		t.Errorf("credential %q of key %s", credential, key.ID)
	}
	p, err := s.Verify(t.Context(), credential)
	if err != nil || p.Tenant != "acme" || p.Key != key.ID || p.Admin || !slices.Equal(p.Scopes, []string{"runs:write", "threads:read"}) {
		t.Fatalf("Verify = %+v, %v", p, err)
	}
	if err := p.Require("runs:write"); err != nil {
		t.Errorf("Require: %v", err)
	}
	wantCode(t, "Require of another scope", p.Require("usage:read"), fault.PermissionDenied)
	wantCode(t, "RequireAdmin", p.RequireAdmin(), fault.PermissionDenied)
}

func TestStoreHasNoSecret(t *testing.T) {
	d := testdriver.New(t)
	s := open(t, d, nil)
	credential, _ := create(t, s.Of("acme"))
	secret := credential[len(credential)-43:]
	for e, err := range kv.All(t.Context(), d, keys.Partition, kv.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(e.Value), secret) || strings.Contains(string(e.Key), secret) {
			t.Errorf("row %s has the secret", e.Key)
		}
	}
}

// TestWrongCredentialsHaveOneError: neither code nor text tells which part was wrong.
func TestWrongCredentialsHaveOneError(t *testing.T) {
	s := open(t, testdriver.New(t), nil)
	good, key := create(t, s.Of("acme"), "a")
	admin, _ := create(t, s.Admins())
	token, _, err := s.Of("acme").Mint(t.Context(), key.ID, &keys.Token{Thread: "t", Origin: "https://a.example"})
	if err != nil {
		t.Fatal(err)
	}
	swap := func(text string, at int) string {
		c := byte('a')
		if text[at] == c {
			c = 'b'
		}
		return text[:at] + string(c) + text[at+1:]
	}
	revoked, gone := create(t, s.Of("acme"))
	if err := s.Of("acme").Revoke(t.Context(), gone.ID); err != nil {
		t.Fatal(err)
	}
	bad := map[string]string{
		"empty": "", "a word": "secret", "prefix alone": "ah_live_", "no secret": good[:len("ah_live_")+9],
		"wrong secret": swap(good, len(good)-20), "unknown id": swap(good, len("ah_live_")),
		"a tenant's key as an administrator's": "ah_admin_" + good[len("ah_live_"):],
		"an administrator's key as a tenant's": "ah_live_" + admin[len("ah_admin_"):],
		"a key as a token":                     "ah_page_" + good[len("ah_live_"):],
		"another seal":                         swap(token, len(token)-20), "other claims": swap(token, len("ah_page_")+20),
		"longer": good + "A", "shorter": good[:len(good)-1], "line break": good[:len(good)-1] + "\n", "NUL": good + "\x00",
		"second text of one secret": good[:len(good)-1] + "_", "revoked": revoked, "huge": good + strings.Repeat("A", 1<<20),
		"JWT without a verifier": "eyJhbGciOiJub25lIn0.e30.",
	}
	want := ""
	for name, text := range bad {
		if text == good {
			continue
		}
		_, err := s.Verify(t.Context(), text)
		wantCode(t, name, err, fault.Unauthenticated)
		if err == nil {
			continue
		}
		if want == "" {
			want = err.Error()
		}
		if err.Error() != want {
			t.Errorf("%s: error %q differs from %q", name, err, want)
		}
	}
}

func TestAdministratorsAreApart(t *testing.T) {
	s := open(t, testdriver.New(t), nil)
	credential, key := create(t, s.Admins(), "tenants")
	p, err := s.Verify(t.Context(), credential)
	if err != nil || !p.Admin || p.Tenant != "" || !strings.HasPrefix(credential, keys.PrefixAdmin) {
		t.Fatalf("Verify = %+v, %v", p, err)
	}
	if err := p.RequireAdmin(); err != nil {
		t.Error(err)
	}
	_, err = s.Of("acme").Get(t.Context(), key.ID)
	wantCode(t, "an administrator's key of a tenant", err, fault.NotFound)
	_, _, err = s.Admins().Mint(t.Context(), key.ID, &keys.Token{Thread: "t", Origin: "https://a.example"})
	wantCode(t, "a token of an administrator", err, fault.PermissionDenied)
}

func TestExpiredKeyIsNotValid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, kv.NewMemory(), nil)
		credential, _, err := s.Of("acme").Create(t.Context(), &keys.Spec{Expires: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour - time.Second)
		if _, err := s.Verify(t.Context(), credential); err != nil {
			t.Errorf("a second before the end: %v", err)
		}
		time.Sleep(time.Second)
		_, err = s.Verify(t.Context(), credential)
		wantCode(t, "at the end", err, fault.Unauthenticated)
	})
}

func TestRotationOverlaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, kv.NewMemory(), nil)
		first, key := create(t, s.Of("acme"), "a")
		token, _, err := s.Of("acme").Mint(t.Context(), key.ID, &keys.Token{Thread: "t", Origin: "https://a.example", Life: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		second, rotated, err := s.Of("acme").Rotate(t.Context(), key.ID, 10*time.Minute)
		if err != nil || rotated.ID != key.ID || !rotated.Replaces.Equal(time.Now().Add(10*time.Minute)) {
			t.Fatalf("Rotate = %+v, %v", rotated, err)
		}
		for name, text := range map[string]string{"old": first, "new": second, "token": token} {
			if p, err := s.Verify(t.Context(), text); err != nil || p.Key != key.ID {
				t.Errorf("%s in the overlap: %+v, %v", name, p, err)
			}
		}
		time.Sleep(10 * time.Minute)
		for name, text := range map[string]string{"old": first, "token of the old": token} {
			_, err := s.Verify(t.Context(), text)
			wantCode(t, name, err, fault.Unauthenticated)
		}
		if _, err := s.Verify(t.Context(), second); err != nil {
			t.Errorf("new after the overlap: %v", err)
		}
	})
}

func TestRevokedKeyEndsAtOnceHereAndInASecondElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := kv.NewMemory()
		here, there := open(t, d, nil), open(t, d, nil)
		credential, key := create(t, here.Of("acme"))
		token, _, err := here.Of("acme").Mint(t.Context(), key.ID, &keys.Token{Thread: "t", Origin: "https://a.example"})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*keys.Store{here, there} {
			for _, text := range []string{credential, token} {
				if _, err := s.Verify(t.Context(), text); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := here.Of("acme").Revoke(t.Context(), key.ID); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{credential, token} {
			_, err := here.Verify(t.Context(), text)
			wantCode(t, "here, at once", err, fault.Unauthenticated)
		}
		time.Sleep(time.Second)
		for _, text := range []string{credential, token} {
			_, err := there.Verify(t.Context(), text)
			wantCode(t, "there, a second later", err, fault.Unauthenticated)
		}
	})
}

// reads counts the reads of a driver.
type reads struct {
	kv.Driver
	gets, scans atomic.Int64
}

func (r *reads) Get(ctx context.Context, partition string, key kv.Key) (kv.Entry, error) {
	r.gets.Add(1)
	return r.Driver.Get(ctx, partition, key)
}

func (r *reads) Scan(ctx context.Context, partition string, of kv.Range) (kv.Page, error) {
	r.scans.Add(1)
	return r.Driver.Scan(ctx, partition, of)
}

func TestVerifyingCostsAtMostOneRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &reads{Driver: kv.NewMemory()}
		s := open(t, d, nil)
		credential, _ := create(t, s.Of("acme"))
		d.gets.Store(0)
		for range 1000 {
			if _, err := s.Verify(t.Context(), credential); err != nil {
				t.Fatal(err)
			}
		}
		if n := d.gets.Load(); n != 1 {
			t.Errorf("%d reads for 1,000 requests at one moment", n)
		}
		unknown := "ah_live_aaaaaaaa_" + strings.Repeat("A", 43)
		d.gets.Store(0)
		for range 10 {
			_, err := s.Verify(t.Context(), unknown)
			wantCode(t, "unknown", err, fault.Unauthenticated)
		}
		if n := d.gets.Load() + d.scans.Load(); n != 1 {
			t.Errorf("%d reads for 10 requests of an unknown id", n)
		}
	})
}

func TestGuessesAreThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &reads{Driver: kv.NewMemory()}
		s := open(t, d, &keys.Options{MaxFailures: 5})
		good, _ := create(t, s.Of("acme"))
		other, _ := create(t, s.Of("acme"))
		from := func(a string) keys.Sender { return keys.Sender{Address: netip.MustParseAddr(a)} }
		if _, err := s.VerifyFrom(t.Context(), good, from("2001:db8::1")); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			_, err := s.VerifyFrom(t.Context(), "ah_live_bbbbbbb"+string(rune('a'+i))+"_"+strings.Repeat("A", 43), from("2001:db8::2"))
			wantCode(t, "a guess", err, fault.Unauthenticated)
		}
		d.gets.Store(0)
		_, err := s.VerifyFrom(t.Context(), "ah_live_cccccccc_"+strings.Repeat("A", 43), from("2001:db8::3"))
		wantCode(t, "another guess from the network", err, fault.ResourceExhausted)
		var e *fault.Error
		if !errors.As(err, &e) || e.RetryAfter <= 0 || e.RetryAfter > time.Minute || e.Limit != "MaxFailures" {
			t.Errorf("error %+v", e)
		}
		if n := d.gets.Load(); n != 0 {
			t.Errorf("a throttled guess reads %d times", n)
		}
		if _, err := s.VerifyFrom(t.Context(), good, from("2001:db8::3")); err != nil {
			t.Errorf("a key that was in use: %v", err)
		}
		_, err = s.VerifyFrom(t.Context(), other, from("2001:db8::3"))
		wantCode(t, "a key that was not in use, from the network", err, fault.ResourceExhausted)
		if _, err := s.VerifyFrom(t.Context(), other, from("2001:db8:1::1")); err != nil {
			t.Errorf("another network: %v", err)
		}
		time.Sleep(time.Minute)
		if _, err := s.VerifyFrom(t.Context(), good, from("2001:db8::3")); err != nil {
			t.Errorf("a minute later: %v", err)
		}
	})
}

func TestAdmitRefuses(t *testing.T) {
	suspended := fault.Errorf(fault.PermissionDenied, "the tenant is suspended")
	s := open(t, testdriver.New(t), &keys.Options{Admit: func(_ context.Context, p *keys.Principal) error {
		if p.Tenant == "acme" {
			return suspended
		}
		return nil
	}})
	credential, _ := create(t, s.Of("acme"))
	if _, err := s.Verify(t.Context(), credential); !errors.Is(err, suspended) {
		t.Errorf("Verify of a suspended tenant: %v", err)
	}
	credential, _ = create(t, s.Of("other"))
	if _, err := s.Verify(t.Context(), credential); err != nil {
		t.Error(err)
	}
}

// verifier is a TokenVerifier of two words.
type verifier struct{}

func (verifier) VerifyToken(_ context.Context, text string) (*keys.Principal, error) {
	switch text {
	case "good":
		return &keys.Principal{Tenant: "acme", Subject: "ann"}, nil
	case "down":
		return nil, fault.Errorf(fault.Unavailable, "the issuer does not answer")
	default:
		return nil, fault.Errorf(fault.Unauthenticated, "the signature of %s is wrong", text)
	}
}

func TestOtherIssuersAreAsked(t *testing.T) {
	s := open(t, testdriver.New(t), &keys.Options{Tokens: verifier{}})
	if p, err := s.Verify(t.Context(), "good"); err != nil || p.Subject != "ann" {
		t.Errorf("Verify = %+v, %v", p, err)
	}
	_, err := s.Verify(t.Context(), "bad")
	wantCode(t, "bad", err, fault.Unauthenticated)
	if strings.Contains(err.Error(), "signature") {
		t.Errorf("the error tells the part: %v", err)
	}
	_, err = s.Verify(t.Context(), "down")
	wantCode(t, "down", err, fault.Unavailable)
}

func TestStoreThatFailsIsNotAWrongKey(t *testing.T) {
	d := kv.NewMemory()
	s := open(t, d, nil)
	credential, _ := create(t, s.Of("acme"))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := s.Verify(t.Context(), credential)
	wantCode(t, "Verify", err, fault.Unavailable)
}

func TestLastUseIsWrittenInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := kv.NewMemory()
		s, other := open(t, d, nil), open(t, d, nil)
		credential, key := create(t, s.Of("acme"))
		gone, goneKey := create(t, s.Of("acme"))
		for range 100 {
			for _, text := range []string{credential, gone} {
				if _, err := s.Verify(t.Context(), text); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := other.Of("acme").Revoke(t.Context(), goneKey.ID); err != nil {
			t.Fatal(err)
		}
		at := time.Now()
		time.Sleep(keys.DefaultFlushInterval)
		synctest.Wait()
		k, err := other.Of("acme").Get(t.Context(), key.ID)
		if err != nil || k.LastUsed.IsZero() || at.Sub(k.LastUsed) > time.Minute {
			t.Errorf("Get = %+v, %v", k, err)
		}
		n := 0
		for e, err := range kv.All(t.Context(), d, keys.Partition, kv.Range{Prefix: kv.NewKey("used")}) {
			if n++; err != nil || strings.Contains(string(e.Key), goneKey.ID) {
				t.Errorf("use %s, %v", e.Key, err)
			}
		}
		if n != 1 {
			t.Errorf("%d last uses are stored, want 1", n)
		}
	})
}

func TestVerifyingAndRotatingRace(t *testing.T) {
	s := open(t, testdriver.New(t), nil)
	credential, key := create(t, s.Of("acme"))
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_, _ = s.Verify(t.Context(), credential)
				}
			}
		})
	}
	for range 20 {
		next, _, err := s.Of("acme").Rotate(t.Context(), key.ID, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Verify(t.Context(), next); err != nil {
			t.Fatalf("the new credential: %v", err)
		}
		_, err = s.Verify(t.Context(), credential)
		wantCode(t, "the first credential", err, fault.Unauthenticated)
	}
	close(stop)
	wg.Wait()
}
