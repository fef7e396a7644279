package host_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// serialized returns an agent and threads of it of every kind.
func serialized(t testing.TB) (*host.Agent, map[string][]byte) {
	t.Helper()
	broken := host.Errorf(host.Unavailable, "down")
	out := map[string][]byte{}
	var agent *host.Agent
	keep := func(name string, off bool, replies ...hosttest.Reply) {
		k := newKeepingModel(replies...)
		k.off = off
		agent = newAgent(t, &host.AgentOptions{Model: k, Tools: []*host.Tool{lookingTool(nil)}})
		thread := newThread(t, agent, &host.ThreadOptions{Tenant: "acme", ID: "t1"})
		if len(replies) > 0 {
			_, _ = newHost(t, nil).Run(context.Background(), agent, &host.Request{Tenant: "acme", Text: "hi", AgentThread: thread, State: map[string]any{"n": 9007199254740993}})
		}
		raw, err := thread.Serialize(context.Background())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = raw
	}
	keep("unused", false)
	keep("undecided", false, hosttest.Fail(broken))
	keep("store", true, hosttest.Call("look", `{"a":1}`), hosttest.Say("<b>R</b>"))
	keep(ambiguous, true, hosttest.Call("look", `{"a":1,"a":2}`), hosttest.Say("R"))
	keep("service", false, hosttest.Say("R"))
	keep("service that waits", false, hosttest.Call("look", `{}`), hosttest.Fail(broken))
	return agent, out
}

// ambiguous is a thread with JSON of the model's that has a member twice. Nobody
// can tell the first of the two from one that was changed.
const ambiguous = "store with a member twice"

func restore(a *host.Agent, data []byte) (*host.AgentThread, error) {
	return a.RestoreThread(context.Background(), data, &host.ThreadOptions{Tenant: "acme"})
}

func TestSerializedThreadsComeBackAsTheyWere(t *testing.T) {
	a, threads := serialized(t)
	for name, raw := range threads {
		thread, err := restore(a, raw)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, raw)
			continue
		}
		again, err := thread.Serialize(t.Context())
		if err != nil || !bytes.Equal(raw, again) {
			t.Errorf("%s: %v\n was %s\n is  %s", name, err, raw, again)
		}
		if kind := string(thread.Kind()); thread.ID() != "t1" || thread.Tenant() != "acme" || !strings.Contains(string(raw), `"kind":"`+kind+`"`) {
			t.Errorf("%s: the thread is %q of %q, of the kind %s", name, thread.ID(), thread.Tenant(), kind)
		}
	}
}

// A database may put members in another order and write strings and numbers its
// own way.
func TestSerializedThreadsMayBeWrittenAnew(t *testing.T) {
	a, threads := serialized(t)
	for name, raw := range threads {
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		var doc any
		if err := dec.Decode(&doc); err != nil {
			t.Fatal(err)
		}
		other, err := json.MarshalIndent(doc, " ", "\t") // sorted, spaced, <b> as \u003cb\u003e
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(other, raw) {
			t.Fatalf("%s: nothing has changed", name)
		}
		if _, err := restore(a, bytes.Replace(other, []byte("9007199254740993"), []byte("9007199254740993.0"), 1)); err != nil {
			t.Errorf("%s: %v\n%s", name, err, other)
		}
	}
}

func TestOneSerializedThreadMakesIndependentThreads(t *testing.T) {
	model := hosttest.NewModel(hosttest.Say("R1"), hosttest.Say("R2"), hosttest.Say("R3"))
	a := newAgent(t, &host.AgentOptions{Model: model})
	thread := newThread(t, a, nil)
	say(t, a, thread, "one")
	raw, _ := thread.Serialize(t.Context())
	given := slices.Clone(raw)
	first, err1 := a.RestoreThread(t.Context(), given, nil)
	second, err2 := a.RestoreThread(t.Context(), given, nil)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	say(t, a, first, "two")
	say(t, a, second, "three")
	wantThread(t, thread, "u:one", "a:R1")
	wantThread(t, first, "u:one", "a:R1", "u:two", "a:R2")
	wantThread(t, second, "u:one", "a:R1", "u:three", "a:R3")
	if !bytes.Equal(raw, given) {
		t.Error("the serialized thread was changed")
	}
}

// What a serialized thread may not be, and what comes of it.
func TestSerializedThreadsThatAreRefused(t *testing.T) {
	a, threads := serialized(t)
	good := string(threads["store"])
	swap := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("there is no %s in %s", old, good)
		}
		return strings.Replace(good, old, new, 1)
	}
	for name, c := range map[string]struct {
		data string
		code host.Code
	}{
		"nothing":               {"", host.DataLoss},
		"null":                  {"null", host.DataLoss},
		"an array":              {"[" + good + "]", host.DataLoss},
		"a string":              {`"thread"`, host.DataLoss},
		"a number":              {"7", host.DataLoss},
		"an empty object":       {"{}", host.DataLoss},
		"two of them":           {good + good, host.DataLoss},
		"not UTF-8":             {swap("clerk", "cl\xffrk"), host.DataLoss},
		"no version":            {swap(`"version":1,`, ``), host.DataLoss},
		"a newer version":       {swap(`"version":1`, `"version":2`), host.FailedPrecondition},
		"a version that is odd": {swap(`"version":1`, `"version":"1"`), host.DataLoss},
		"version zero":          {swap(`"version":1`, `"version":0`), host.DataLoss},
		"two versions":          {swap(`"version":1`, `"version":1,"version":1`), host.DataLoss},
		"an unknown member":     {swap(`"version":1`, `"version":1,"extra":true`), host.DataLoss},
		"another kind":          {swap(`"kind":"store"`, `"kind":"service"`), host.DataLoss},
		"a kind of its own":     {swap(`"kind":"store"`, `"kind":"both"`), host.DataLoss},
		"no id":                 {resum(t, swap(`"id":"t1"`, `"id":""`)), host.DataLoss},
		"an id with NUL":        {resum(t, swap(`"id":"t1"`, `"id":"t\u0000"`)), host.DataLoss},
		"an endless id":         {resum(t, swap(`"id":"t1"`, `"id":"`+strings.Repeat("x", 1000)+`"`)), host.DataLoss},
		"no sum":                {good[:strings.Index(good, `,"sum"`)] + "}", host.DataLoss},
		"another sum":           {good[:len(good)-3] + `g"}`, host.DataLoss},
		"another text":          {swap("hi", "ho"), host.DataLoss},
		"another number":        {swap("9007199254740993", "9007199254740992"), host.DataLoss},
		"another store type":    {swap(`"type":"memory"`, `"type":"redis"`), host.DataLoss},
		"messages that are not": {resum(t, swap(`"state":{"messages":[`, `"state":{"messages":[{},`)), host.DataLoss},
		"messages null":         {resum(t, replaceStore(t, good, `{"messages":null}`)), host.DataLoss},
		"a store that is none":  {resum(t, replaceStore(t, good, `[]`)), host.DataLoss},
		"a store of another":    {resum(t, swap(`"type":"memory"`, `"type":"redis"`)), host.FailedPrecondition},
		"a newer shape":         {resum(t, swap(`"version":1`, `"version":1,"extra":true`)), host.DataLoss},
		"kind and shape differ": {resum(t, swap(`"kind":"store"`, `"kind":"service"`)), host.DataLoss},
		"a conversation too":    {resum(t, swap(`"store":`, `"service":{"conversation":"r"},"store":`)), host.DataLoss},
		"state that is none":    {resum(t, swap(`"state":{"n":9007199254740993}`, `"state":7`)), host.DataLoss},
		"providers that are no": {resum(t, swap(`"store":`, `"providers":[],"store":`)), host.DataLoss},
		"another agent":         {resum(t, swap(`"name":"clerk"`, `"name":"boss"`)), host.FailedPrecondition},
		"another configuration": {resum(t, swap(`"digest":"`, `"digest":"0`)), host.FailedPrecondition},
		"another tenant":        {resum(t, swap(`"tenant":"acme"`, `"tenant":"globex"`)), host.PermissionDenied},
		"no tenant":             {resum(t, swap(`"tenant":"acme",`, ``)), host.PermissionDenied},
		"nested without end":    {`{"version":1,"store":` + strings.Repeat("[", 100_000), host.DataLoss},
		"known too many":        {resum(t, swap(`"store":`, `"open":[],"known":1,"store":`)), host.DataLoss},
		"known below zero":      {resum(t, swap(`"store":`, `"open":[],"known":-1,"store":`)), host.DataLoss},
		"open without known":    {resum(t, swap(`"store":`, `"open":[],"store":`)), host.DataLoss},
	} {
		given := []byte(c.data)
		thread, err := restore(a, given)
		if host.CodeOf(err) != c.code || thread != nil {
			t.Errorf("%s: %v, %v; want code %s", name, thread, err, c.code)
		}
		if string(given) != c.data {
			t.Errorf("%s: the bytes were changed", name)
		}
	}
	if _, err := restore(a, bytes.Repeat([]byte(" "), host.MaxThreadBytes+1)); host.CodeOf(err) != host.ResourceExhausted {
		t.Errorf("too long: %v; want code %s", err, host.ResourceExhausted)
	}
}

// resum gives a changed thread the sum that it should have, as somebody does who
// means it. It knows how sums are made only by asking: the error for one that is
// wrong does not say which is right, so it is made here once more.
func resum(t testing.TB, data string) string {
	t.Helper()
	out, err := threadWithSum([]byte(data))
	if err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return string(out)
}

func replaceStore(t testing.TB, data, state string) string {
	t.Helper()
	var e map[string]json.RawMessage
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		t.Fatal(err)
	}
	e["store"] = json.RawMessage(`{"type":"memory","state":` + state + `}`)
	out, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// Cut off anywhere, and with any bit flipped, a serialized thread is an error or
// the same thread.
func TestDamagedThreadsAreFound(t *testing.T) {
	a, threads := serialized(t)
	for name, raw := range threads {
		for n := range raw {
			if _, err := restore(a, raw[:n]); err == nil {
				t.Fatalf("%s: %d of %d bytes are taken", name, n, len(raw))
			}
		}
		if name == ambiguous {
			continue
		}
		for i := range raw {
			for bit := range 8 {
				damaged := slices.Clone(raw)
				damaged[i] ^= 1 << bit
				thread, err := restore(a, damaged)
				if err != nil {
					continue
				}
				if again, err := thread.Serialize(t.Context()); err != nil || !bytes.Equal(again, raw) {
					t.Fatalf("%s: with bit %d of byte %d flipped it is another thread:\n%s\n%s", name, bit, i, damaged, again)
				}
			}
		}
	}
}

func TestAnyAgentMayBeAllowed(t *testing.T) {
	a, threads := serialized(t)
	boss, err := host.NewAgent("boss", &host.AgentOptions{Model: says("R2"), Messages: namedStores{memoryMessages(t, nil), "memory"}})
	if err != nil {
		t.Fatal(err)
	}
	redis, err := host.NewAgent("clerk", &host.AgentOptions{Model: says("R2"), Messages: namedStores{memoryMessages(t, nil), "redis"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, agent := range map[string]*host.Agent{"another name": boss, "other stores": redis} {
		if _, err := restore(agent, threads["store"]); host.CodeOf(err) != host.FailedPrecondition {
			t.Errorf("%s: %v; want code %s", name, err, host.FailedPrecondition)
		}
	}
	any := &host.ThreadOptions{Tenant: "acme", AnyAgent: true}
	thread, err := boss.RestoreThread(t.Context(), threads["store"], any)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newHost(t, nil).Run(t.Context(), boss, &host.Request{Tenant: "acme", Text: "again", AgentThread: thread}); err != nil {
		t.Errorf("the other agent cannot go on: %v", err)
	}
	if _, err := newHost(t, nil).Run(t.Context(), a, &host.Request{Tenant: "acme", Text: "again", AgentThread: thread}); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("the thread is the other agent's now: %v; want code %s", err, host.FailedPrecondition)
	}
	if _, err := redis.RestoreThread(t.Context(), threads["store"], any); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("messages cannot change their store: %v; want code %s", err, host.FailedPrecondition)
	}
	if _, err := a.RestoreThread(t.Context(), threads["store"], &host.ThreadOptions{Tenant: "acme", ID: "t2"}); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("with an id: %v; want code %s", err, host.InvalidArgument)
	}
}

type namedStores struct {
	host.MessageStores
	name string
}

func (n namedStores) StoreType() string { return n.name }

// A thread's own key is its store's to keep: the restored thread has the same one.
func TestAStoresKeySurvives(t *testing.T) {
	stores := &keyedStores{lists: map[string][]*host.Message{}}
	model := hosttest.NewModel(hosttest.Say("R1"), hosttest.Say("R2"))
	a := newAgent(t, &host.AgentOptions{Model: model, Messages: stores})
	thread := again(t, a, newThread(t, a, nil)) // the key is there before the first run
	say(t, a, thread, "one")
	say(t, a, again(t, a, thread), "two")
	if stores.minted != 1 || len(stores.lists) != 1 || len(stores.lists["k1"]) != 4 {
		t.Errorf("%d keys, lists %v", stores.minted, stores.lists)
	}
}

// keyedStores mint a key for each new thread.
type keyedStores struct {
	minted int
	lists  map[string][]*host.Message
}

func (*keyedStores) StoreType() string { return "keyed" }

func (s *keyedStores) OpenStore(_ context.Context, req *host.StoreRequest) (host.MessageStore, error) {
	if req.State == nil {
		s.minted++
		return &keyedStore{s, fmt.Sprintf("k%d", s.minted)}, nil
	}
	var state struct{ Key string }
	if err := json.Unmarshal(req.State, &state); err != nil {
		return nil, err
	}
	return &keyedStore{s, state.Key}, nil
}

type keyedStore struct {
	stores *keyedStores
	key    string
}

func (k *keyedStore) AddMessages(_ context.Context, messages []*host.Message) error {
	k.stores.lists[k.key] = append(k.stores.lists[k.key], messages...)
	return nil
}

func (k *keyedStore) ListMessages(context.Context) ([]*host.Message, error) {
	return slices.Clone(k.stores.lists[k.key]), nil
}

func (k *keyedStore) Serialize(context.Context) (json.RawMessage, error) {
	return json.Marshal(map[string]string{"key": k.key})
}

func FuzzRestoreThread(f *testing.F) {
	a, threads := serialized(f)
	for _, raw := range threads {
		f.Add(raw, false)
		f.Add(raw, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, sign bool) {
		if sign { // get past the sum
			if signed, err := threadWithSum(data); err == nil {
				data = signed
			}
		}
		given := slices.Clone(data)
		thread, err := restore(a, data)
		if !bytes.Equal(given, data) {
			t.Fatal("the bytes were changed")
		}
		if err != nil {
			if thread != nil || host.CodeOf(err) == host.Internal {
				t.Fatalf("%v, %v", thread, err)
			}
			return
		}
		raw, err := thread.Serialize(t.Context())
		if err != nil {
			t.Fatalf("what was restored cannot be serialized: %v", err)
		}
		if _, err := restore(a, raw); err != nil {
			t.Fatalf("what was serialized cannot be restored: %v\n%s", err, raw)
		}
	})
}

// remembering is a context provider that counts its runs in the thread, and sees
// what others would see of it.
type remembering struct {
	name string
	fail *bool
}

func (r remembering) Name() string { return r.name }

func (r remembering) Provide(_ context.Context, req *host.ProvideRequest) (*host.Provided, error) {
	var n int
	if _, err := req.Own.Get(&n); err != nil {
		return nil, err
	}
	if err := req.Own.Set(n + 1); err != nil {
		return nil, err
	}
	if r.fail != nil && *r.fail {
		return nil, host.Errorf(host.Unavailable, "no")
	}
	return &host.Provided{Instructions: fmt.Sprintf("%s %d", r.name, n)}, nil
}

// What context providers keep goes with the thread, each under its own key; a run
// that failed leaves it as it was; and who has other providers is another agent.
func TestStatesOfProvidersGoWithTheThread(t *testing.T) {
	fail := false
	model := hosttest.NewModel(hosttest.Say("R0"), hosttest.Say("R1"), hosttest.Say("R2"))
	a := newAgent(t, &host.AgentOptions{Model: model, Providers: []host.Provider{remembering{"first", nil}, remembering{"second", &fail}}})
	thread := newThread(t, a, nil)
	for run := range 3 {
		say(t, a, thread, fmt.Sprint("Q", run))
		thread = again(t, a, thread)
		fail = true
		if _, err := newHost(t, nil).Run(t.Context(), a, &host.Request{Text: "fails", AgentThread: thread}); host.CodeOf(err) != host.Unavailable {
			t.Errorf("%v; want code %s", err, host.Unavailable)
		}
		fail = false
		thread = again(t, a, thread)
	}
	for run, req := range model.Requests() {
		if want := fmt.Sprintf("first %d\nsecond %d", run, run); req.Messages[0].Text() != want {
			t.Errorf("run %d has the instructions %q, want %q", run, req.Messages[0].Text(), want)
		}
	}
	raw, err := thread.Serialize(t.Context())
	if err != nil || !bytes.Contains(raw, []byte(`"providers":{"clerk/first":3,"clerk/second":3}`)) {
		t.Errorf("serialized: %s, %v", raw, err)
	}
	other := newAgent(t, &host.AgentOptions{Model: model, Providers: []host.Provider{remembering{"first", nil}}})
	if _, err := other.RestoreThread(t.Context(), raw, nil); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("with another list of providers: %v; want code %s", err, host.FailedPrecondition)
	}
}

// threadWithSum gives a serialized thread that was changed the sum of its members now,
// for tests of damage that the sum does not find.
func threadWithSum(data []byte) ([]byte, error) {
	doc, err := jsondoc.Decode(data)
	if err != nil {
		return nil, err
	}
	members, ok := doc.(map[string]any)
	if !ok {
		return nil, errors.New("not an object")
	}
	delete(members, "sum")
	sum := sha256.Sum256(jsondoc.Encode(withPlainNumbers(members)))
	members, _ = mustDecode(data).(map[string]any)
	members["sum"] = hex.EncodeToString(sum[:])
	return jsondoc.Encode(members), nil
}

func mustDecode(data []byte) any {
	doc, err := jsondoc.Decode(data)
	if err != nil {
		panic(err)
	}
	return doc
}

// withPlainNumbers writes the numbers of a document by their values, as the sum counts
// them.
func withPlainNumbers(doc any) any {
	switch v := doc.(type) {
	case map[string]any:
		for name, e := range v {
			v[name] = withPlainNumbers(e)
		}
	case []any:
		for i, e := range v {
			v[i] = withPlainNumbers(e)
		}
	case json.Number:
		if d := jsondoc.DecimalOf(v); d.Overflow == "" {
			return json.Number(fmt.Sprintf("%t %s %d", d.Negative, d.Digits, d.Exponent))
		}
	}
	return doc
}
