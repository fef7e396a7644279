// Package keys gives callers of a host their credentials and checks them: API keys of
// tenants and of administrators, and short-lived tokens for browser pages.
//
//	store := keys.New(driver, nil)
//	defer store.Close()
//	credential, key, err := store.Of("acme").Create(ctx, &keys.Spec{Name: "backend", Scopes: []string{"runs:write"}})
//
//	// In a server, for each request.
//	who, err := store.Authenticate(r)
//	if err == nil {
//		err = who.Require("runs:write")
//	}
//
// # Credentials
//
// A key is ah_live_ID_SECRET, an administrator's ah_admin_ID_SECRET: the prefix lets
// scanners of repositories find leaked ones, ID has 8 characters and names the key in
// lists and in usage, SECRET is 256 random bits. The store has the SHA-256 of a secret
// and never the secret: [Keyring.Create] and [Keyring.Rotate] return the credential
// once. A slow hash would protect passwords, which people choose; no one guesses 256 bits.
//
// A token is ah_page_ID_CLAIMS_SEAL. [Keyring.Mint] makes it from a key, for one thread
// and the pages of one origin, for minutes; it never allows more than its key. Its key
// seals it with a secret from the key's record, so that a token costs no write, and ends
// with the key, or with the secret that the key had before its rotation.
//
// Administrators are no tenant's: their keys have records, a prefix and a [Keyring] of
// their own, and [Principal].Admin. A credential of one kind is never one of the other.
//
// # Verifying
//
// A credential costs at most one read of the store. Records are kept for less than a
// second, in a bounded cache: a key that is revoked or rotated is known at once on this
// host, and within a second on all others that use the store, whether a message reaches
// them or not. An unknown credential, a wrong secret, an expired key and a token of
// another origin have one error, of code unauthenticated, that does not tell which of
// them it was, and the secrets are compared in constant time.
//
// [Store.Authenticate] and [Store.VerifyFrom] count the failures of an address (of a /64
// with IPv6): after [Options].MaxFailures in a minute they answer resource_exhausted with
// RetryAfter without a read of the store. Callers whose key this host has seen lately
// are served meanwhile.
//
// Tokens of an identity provider are verified by [Options].Tokens; package
// host/keys/oidc has one for OpenID Connect.
//
// # Records
//
// Records are in a partition of the store that is no tenant's. [Store.Erase] and
// [Store.Find] make the Store a part of package host/erasure, so that a deleted tenant's
// keys go with it. The last use of a key is written within [Options].FlushInterval, at
// most once in a minute for each key.
package keys
