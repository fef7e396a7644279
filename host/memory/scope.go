package memory

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
)

// MaxNameBytes is the longest name in a scope.
const MaxNameBytes = 128

// Scope says whose memories are meant. Tenant comes from a credential, as in a
// [host.Request]; "" is the tenant "default". The others are any text without
// NUL, of up to [MaxNameBytes]; with all of them empty, a tenant must be given:
// its memories are those that all share.
type Scope struct {
	Tenant      string `json:"tenant,omitempty"`
	Application string `json:"application,omitempty"`
	User        string `json:"user,omitempty"`
	Agent       string `json:"agent,omitempty"`
	Run         string `json:"run,omitempty"`
}

// defaultTenant is the tenant of a scope that names none.
const defaultTenant = host.DefaultTenant

func (s Scope) names() [4]string { return [4]string{s.Application, s.User, s.Agent, s.Run} }

var nameKinds = [4]string{"application", "user", "agent", "run"}

func (s Scope) check() error {
	if s == (Scope{}) {
		return host.Errorf(host.InvalidArgument, "a scope without a name").
			WithHint("give a tenant, application, user, agent or run")
	}
	if _, err := host.TenantPartition(s.Tenant); err != nil {
		return err
	}
	for i, name := range s.names() {
		if len(name) > MaxNameBytes || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
			return host.Errorf(host.InvalidArgument, "the %s of a scope is not UTF-8 without control characters of at most %d bytes", nameKinds[i], MaxNameBytes)
		}
	}
	return nil
}

func (s Scope) partition() string {
	part, _ := host.TenantPartition(s.Tenant) // check has looked at it
	return part
}

// within reports whether s has all names of filter.
func (s Scope) within(filter Scope) bool {
	have := s.names()
	for i, want := range filter.names() {
		if want != "" && want != have[i] {
			return false
		}
	}
	return true
}

// Where things are in a tenant's partition:
//
//	memory/scope/<application>/<user>/<agent>/<run>     the record of a scope
//	memory/by/<kind>/<name>/<application>/...           empty; lists scopes by a name
//	memory/deleted/<content>                            empty; content still to be removed
//	memory/expires/<time>/<content>/<id>                the scope; the index of expiry times
//	memory/content/<content>/memory/<id>                a memory
//	memory/content/<content>/text/<digest>              the id of the memory with a text
//	memory/content/<content>/word/<stem>/<id>           how often, in how many words
//	memory/content/<content>/vector/<id>                the vector of a memory's text
//	memory/content/<content>/history/<id>/<n>           an event of a memory
//
// A scope's content lies under an id that is never used again, so that deleting
// all of it is one write.
var (
	scopeKeys   = kv.NewKey("memory", "scope")
	byKeys      = kv.NewKey("memory", "by")
	deletedKeys = kv.NewKey("memory", "deleted")
	expiresKeys = kv.NewKey("memory", "expires")
	contentKeys = kv.NewKey("memory", "content")
)

func (s Scope) under(k kv.Key) kv.Key { n := s.names(); return k.With(n[:]...) }

func (s Scope) key() kv.Key { return s.under(scopeKeys) }

// listings are the keys that list the scope by each of its names.
func (s Scope) listings() (keys []kv.Key) {
	for i, name := range s.names() {
		if name != "" {
			keys = append(keys, s.under(byKeys.With(nameKinds[i], name)))
		}
	}
	return keys
}

// scopeOf reads the names at the end of a key.
func scopeOf(tenant string, rest kv.Key) (Scope, bool) {
	var names [4]string
	for i := range names {
		var ok bool
		if names[i], rest, ok = rest.CutString(); !ok {
			return Scope{}, false
		}
	}
	return Scope{Tenant: tenant, Application: names[0], User: names[1], Agent: names[2], Run: names[3]}, rest == ""
}

// content builds the keys of one scope's content.
type content string

func (c content) all() kv.Key                      { return contentKeys.With(string(c)) }
func (c content) memories() kv.Key                 { return c.all().With("memory") }
func (c content) memory(id string) kv.Key          { return c.memories().With(id) }
func (c content) text(digest string) kv.Key        { return c.all().With("text", digest) }
func (c content) word(stem string) kv.Key          { return c.all().With("word", stem) }
func (c content) posting(stem, id string) kv.Key   { return c.word(stem).With(id) }
func (c content) vectors() kv.Key                  { return c.all().With("vector") }
func (c content) vector(id string) kv.Key          { return c.vectors().With(id) }
func (c content) history(id string) kv.Key         { return c.all().With("history", id) }
func (c content) event(id string, n uint64) kv.Key { return c.history(id).WithUint(n) }
func (c content) deleted() kv.Key                  { return deletedKeys.With(string(c)) }
