package main

import (
	"context"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/keys"
	"github.com/agenthost/agenthost/host/kv"
)

const iterations = 600_000 // of PBKDF2 with SHA-256: a guess costs as much as a login

var customer = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)

// accounts are the people who log in and their sessions: rows in the partition of their
// customer, so that they are encrypted, backed up, deleted and proven gone with it.
type accounts struct {
	db      kv.Driver
	hashing chan struct{} // bounds the processors that guesses of passwords keep busy
}

type account struct{ Salt, Hash []byte }

func (a *accounts) add(ctx context.Context, tenant, email, password string) error {
	salt := []byte(rand.Text())
	hash, err := a.hash(ctx, password, salt)
	if err != nil {
		return err
	}
	return a.put(ctx, tenant, kv.OwnKey("account", email), account{Salt: salt, Hash: hash})
}

// begin returns the cookie of a new session, if the password is right. It takes as long for
// people who do not exist.
func (a *accounts) begin(ctx context.Context, tenant, email, password string) (cookie string, err error) {
	var known account
	if err := a.get(ctx, tenant, kv.OwnKey("account", email), &known); err != nil {
		return "", err
	}
	hash, err := a.hash(ctx, password, known.Salt)
	if err != nil {
		return "", err
	}
	if subtle.ConstantTimeCompare(hash, known.Hash) == 0 {
		return "", host.Errorf(host.Unauthenticated, "the customer, the address or the password is wrong").WithHint("check all three")
	}
	cookie = tenant + "." + rand.Text()
	return cookie, a.put(ctx, tenant, sessionKey(cookie), keys.Principal{
		Tenant: tenant, Subject: email, Scopes: httpapi.Scopes(), Expires: time.Now().Add(12 * time.Hour),
	})
}

// of returns whose session the cookie of a request names.
func (a *accounts) of(r *http.Request) (*keys.Principal, error) {
	var who keys.Principal
	c, err := r.Cookie("session")
	if err == nil {
		tenant, _, _ := strings.Cut(c.Value, ".")
		err = a.get(r.Context(), tenant, sessionKey(c.Value), &who)
	}
	if errors.Is(err, http.ErrNoCookie) || err == nil && time.Now().After(who.Expires) {
		err = host.Errorf(host.Unauthenticated, "the request is of no session, or of one that has ended").WithHint("log in")
	}
	return &who, err
}

// sessionKey is made of a digest: who reads the rows cannot log in with them.
func sessionKey(cookie string) kv.Key {
	sum := sha256.Sum256([]byte(cookie))
	return kv.OwnKey("session", string(sum[:]))
}

func (a *accounts) hash(ctx context.Context, password string, salt []byte) ([]byte, error) {
	select {
	case a.hashing <- struct{}{}:
		defer func() { <-a.hashing }()
		return pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	case <-ctx.Done():
		return nil, host.Errorf(host.Unavailable, "too many people log in: %w", ctx.Err()).WithHint("try again")
	}
}

// get reads a row. One that does not exist leaves into as the zero value.
func (a *accounts) get(ctx context.Context, tenant string, key kv.Key, into any) error {
	row, err := a.db.Get(ctx, tenant, key)
	if errors.Is(err, kv.ErrNotFound) || !customer.MatchString(tenant) {
		return nil
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(row.Value, into)
}

func (a *accounts) put(ctx context.Context, tenant string, key kv.Key, row any) error {
	value, err := json.Marshal(row)
	if err == nil {
		_, err = kv.Apply(ctx, a.db, kv.Tx{Partition: tenant, Writes: []kv.Write{kv.Put(key, value)}})
	}
	return err
}
