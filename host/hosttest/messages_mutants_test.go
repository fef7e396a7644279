package hosttest_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

// listStores keep messages in lists that all of them share, as a database does.
// Each flag breaks one rule.
type listStores struct {
	place *listPlace
	limit int

	address                                                                   string // a secret
	sharesTenants, mintsKeys, addsTwice, forgetsStates, partsPairs, sharesOut bool
}

type listPlace struct {
	mu    sync.Mutex
	lists map[string][]*host.Message
}

func newListStores() *listStores {
	return &listStores{place: &listPlace{lists: map[string][]*host.Message{}}}
}

func (s *listStores) StoreType() string { return "lists" }

func (s *listStores) OpenStore(_ context.Context, req *host.StoreRequest) (host.MessageStore, error) {
	thread := req.Thread
	if req.State != nil {
		var state struct{ Thread, Address *string }
		if !s.forgetsStates && (json.Unmarshal(req.State, &state) != nil || state.Thread == nil) {
			return nil, host.Errorf(host.DataLoss, "not a state of lists")
		}
		if state.Thread != nil {
			thread = *state.Thread
		}
	}
	if s.mintsKeys {
		thread = host.NewID()
	}
	tenant := req.Tenant
	if s.sharesTenants {
		tenant = ""
	}
	return &listStore{s, thread, tenant + "\x00" + thread}, nil
}

type listStore struct {
	stores      *listStores
	thread, key string
}

func (l *listStore) AddMessages(ctx context.Context, messages []*host.Message) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p := l.stores.place
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.lists[l.key]
	for _, m := range messages {
		if l.stores.addsTwice || !slices.ContainsFunc(list, func(o *host.Message) bool { return o.ID == m.ID }) {
			list = append(list[:len(list):len(list)], m)
		}
	}
	if l.stores.partsPairs && l.stores.limit > 0 {
		list = list[max(0, len(list)-l.stores.limit):]
	}
	p.lists[l.key] = host.KeepNewest(list, l.stores.limit)
	return nil
}

func (l *listStore) ListMessages(ctx context.Context) ([]*host.Message, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	l.stores.place.mu.Lock()
	defer l.stores.place.mu.Unlock()
	if l.stores.sharesOut {
		return l.stores.place.lists[l.key], nil
	}
	return slices.Clone(l.stores.place.lists[l.key]), nil
}

func (l *listStore) Serialize(context.Context) (json.RawMessage, error) {
	return json.Marshal(map[string]string{"thread": l.thread, "address": l.stores.address})
}

func testListStores(t *testing.T, change func(*listStores)) {
	newStores := func(place *listPlace, limit int) (*listStores, error) {
		if limit < 0 {
			return nil, host.Errorf(host.InvalidArgument, "limit %d", limit)
		}
		s := newListStores()
		if change != nil {
			change(s)
		}
		if s.limit = limit; place != nil {
			s.place = place
		}
		return s, nil
	}
	hosttest.TestMessageStores(t, func(*testing.T) host.MessageStores { s, _ := newStores(nil, 0); return s },
		&hosttest.MessageStoresOptions{Secrets: []string{"pa55word"},
			Limited: func(_ *testing.T, limit int) (host.MessageStores, error) { return newStores(nil, limit) }})
}

func TestMessageKitOnSharedLists(t *testing.T) { testListStores(t, nil) }

func messagesMutant(rule string, change func(*listStores)) mutant {
	return mutant{"--- FAIL: TestMutant/" + strings.ReplaceAll(rule, " ", "_"), func(t *testing.T) { testListStores(t, change) }}
}

func init() {
	mutants["one list for all tenants"] = messagesMutant("tenants do not see each other", func(s *listStores) { s.sharesTenants = true })
	mutants["a fresh key for a restored thread"] = messagesMutant("a serialized store finds its messages again", func(s *listStores) { s.mintsKeys = true })
	mutants["a retried write is a second one"] = messagesMutant("adding the same again changes nothing", func(s *listStores) { s.addsTwice = true })
	mutants["takes any state"] = messagesMutant("a state that it does not write is refused", func(s *listStores) { s.forgetsStates = true })
	mutants["trims by number alone"] = messagesMutant("a limit parts no call from its results", func(s *listStores) { s.partsPairs = true })
	mutants["hands out its own list"] = messagesMutant("what is given and returned is not shared", func(s *listStores) { s.sharesOut = true })
	mutants["writes its password down"] = messagesMutant("the state is an object without secrets", func(s *listStores) { s.address = "redis://:pa55word@host" })
}
