package redismessages_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/redismessages"
	"github.com/agenthost/agenthost/internal/testhost"
)

func TestMessageKit(t *testing.T) {
	url := urlOf(t)
	hosttest.TestMessageStores(t, func(t *testing.T) host.MessageStores { return open(t, nil) },
		&hosttest.MessageStoresOptions{
			Secrets: secretsOf(t, url),
			Limited: func(t *testing.T, limit int) (host.MessageStores, error) {
				if limit < 0 { // New refuses before anything is sent
					return redismessages.New(connect(t), &redismessages.Options{MaxMessages: limit})
				}
				return open(t, &redismessages.Options{MaxMessages: limit}), nil
			},
		})
}

// What a list is called, and that its elements are what other readers expect.
func TestOneListForEachThread(t *testing.T) {
	prefix := prefixOf(t)
	stores := open(t, &redismessages.Options{KeyPrefix: prefix})
	m := host.UserText("hi")
	for _, at := range []struct{ tenant, thread, key string }{
		{"acme", "user_session_123", prefix + ":acme:user_session_123"},
		{"", "t", prefix + ":default:t"},
		{"a:b", "50%", prefix + ":a%3Ab:50%25"},
	} {
		s, err := stores.OpenStore(t.Context(), &host.StoreRequest{Tenant: at.tenant, Thread: at.thread})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.AddMessages(t.Context(), []*host.Message{m}); err != nil {
			t.Fatal(err)
		}
		got, err := connect(t).LRange(t.Context(), at.key, 0, -1).Result()
		if err != nil || !slices.Equal(got, []string{string(m.AppendJSON(nil))}) {
			t.Errorf("%s is %q, %v", at.key, got, err)
		}
	}
}

// wire is a hook that sees transactions, and breaks connections.
type wire struct {
	sent   [][]string // the commands of each transaction
	breaks func(commands []string) (before, after bool)
}

func (w *wire) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (w *wire) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (w *wire) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		var names []string
		for _, c := range cmds {
			names = append(names, c.Name())
		}
		w.sent = append(w.sent, names)
		before, after := false, false
		if w.breaks != nil {
			before, after = w.breaks(names)
		}
		if before {
			return errBroken
		}
		if err := next(ctx, cmds); err != nil || !after {
			return err
		}
		return errBroken
	}
}

var errBroken = errors.New("connection reset")

func TestAppendAndTrimAreOneTransaction(t *testing.T) {
	w := &wire{}
	stores, err := redismessages.New(connect(t, w), &redismessages.Options{KeyPrefix: prefixOf(t), MaxMessages: 2})
	if err != nil {
		t.Fatal(err)
	}
	s := storeOf(t, stores, "t1")
	if err := s.AddMessages(t.Context(), []*host.Message{host.NewMessage(host.System, &host.Text{Text: "s"}), host.UserText("1"), host.UserText("2")}); err != nil {
		t.Fatal(err)
	}
	w.sent = nil
	if err := s.AddMessages(t.Context(), []*host.Message{host.UserText("3")}); err != nil {
		t.Fatal(err)
	}
	writes := 0
	for _, names := range w.sent {
		if slices.Contains(names, "rpush") {
			writes++
			if want := []string{"multi", "rpush", "ltrim", "lpush", "exec"}; !slices.Equal(names, want) {
				t.Errorf("the transaction is %v, want %v", names, want)
			}
		} else if slices.Contains(names, "ltrim") {
			t.Errorf("trimmed apart: %v", names)
		}
	}
	if writes != 1 {
		t.Errorf("%d transactions, want 1: %v", writes, w.sent)
	}
}

// Whether the connection breaks before the transaction or behind it, the write can
// be sent again.
func TestABrokenConnection(t *testing.T) {
	for _, arrived := range []bool{false, true} {
		w := &wire{}
		stores, err := redismessages.New(connect(t, w), &redismessages.Options{KeyPrefix: prefixOf(t), MaxMessages: 2})
		if err != nil {
			t.Fatal(err)
		}
		s := storeOf(t, stores, "t1")
		first, turn := host.UserText("1"), []*host.Message{host.UserText("2"), host.UserText("3")}
		if err := s.AddMessages(t.Context(), []*host.Message{first}); err != nil {
			t.Fatal(err)
		}
		w.breaks = func(commands []string) (before, after bool) {
			exec := slices.Contains(commands, "exec")
			return exec && !arrived, exec && arrived
		}
		err = s.AddMessages(t.Context(), turn)
		if host.CodeOf(err) != host.Unavailable || !fault.AsError(err).Retryable {
			t.Errorf("arrived %t: %v; want code %s, retryable", arrived, err, host.Unavailable)
		}
		w.breaks = nil
		list, _ := s.ListMessages(t.Context())
		if n := len(list); arrived && n != 2 || !arrived && n != 1 {
			t.Errorf("arrived %t: %d messages are there", arrived, n)
		}
		if err := s.AddMessages(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
		list, _ = s.ListMessages(t.Context())
		if len(list) != 2 || list[0].ID != turn[0].ID || list[1].ID != turn[1].ID {
			t.Errorf("arrived %t: after sending it again there are %d messages", arrived, len(list))
		}
	}
}

func TestAnElementThatCannotBeRead(t *testing.T) {
	prefix := prefixOf(t)
	var log bytes.Buffer
	strict := open(t, &redismessages.Options{KeyPrefix: prefix})
	lenient := open(t, &redismessages.Options{KeyPrefix: prefix, SkipUnreadable: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	c := connect(t)
	one, two := host.UserText("one"), host.UserText("two")
	for _, e := range []any{one.AppendJSON(nil), "{broken", two.AppendJSON(nil)} {
		if err := c.RPush(t.Context(), prefix+":acme:t1", e).Err(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := storeOf(t, strict, "t1").ListMessages(t.Context())
	if host.CodeOf(err) != host.DataLoss || !strings.Contains(err.Error(), "message 1 of thread") {
		t.Errorf("strict: %v; want code %s and the place", err, host.DataLoss)
	}
	list, err := storeOf(t, lenient, "t1").ListMessages(t.Context())
	if err != nil || len(list) != 2 || !strings.Contains(log.String(), "message=1") {
		t.Errorf("lenient: %d messages, %v, log %q", len(list), err, log.String())
	}
	// It is in nobody's way.
	limited := open(t, &redismessages.Options{KeyPrefix: prefix, MaxMessages: 2})
	if err := storeOf(t, limited, "t1").AddMessages(t.Context(), []*host.Message{host.UserText("three")}); err != nil {
		t.Fatal(err)
	}
	if list, err := storeOf(t, strict, "t1").ListMessages(t.Context()); err != nil || len(list) != 2 {
		t.Errorf("after trimming: %d messages, %v", len(list), err)
	}
}

func TestAWindowListsTheEnd(t *testing.T) {
	prefix := prefixOf(t)
	s := storeOf(t, open(t, &redismessages.Options{KeyPrefix: prefix, Window: 3}), "t1")
	var all []*host.Message
	all = append(all, host.NewMessage(host.System, &host.Text{Text: "s"}))
	for i := range 400 {
		all = append(all, host.UserText(fmt.Sprint(i)))
	}
	if err := s.AddMessages(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	list, err := s.ListMessages(t.Context())
	if err != nil || len(list) != 4 || list[0].Role != host.System || list[1].Text() != "397" {
		t.Errorf("%d messages, %v", len(list), err)
	}
}

func TestErrorsHaveCodesAndNoAddress(t *testing.T) {
	url, prefix := urlOf(t), prefixOf(t)
	c := connect(t)
	user := fmt.Sprintf("limited-%d", os.Getpid())
	if err := c.ACLSetUser(t.Context(), user, "on", ">pa55word", "~elsewhere*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.ACLDelUser(context.Background(), user).Err() })
	if err := c.Set(t.Context(), prefix+":acme:text", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	as := func(password string) string {
		u, err := neturl.Parse(url)
		if err != nil {
			t.Fatal("the address of the tests' server is no URL")
		}
		u.User = neturl.UserPassword(user, password)
		return u.String()
	}
	add := func(s *redismessages.Stores, err error, thread string) error {
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }()
		store, err := s.OpenStore(t.Context(), &host.StoreRequest{Tenant: "acme", Thread: thread})
		if err != nil {
			return err
		}
		return store.AddMessages(t.Context(), []*host.Message{host.UserText("x")})
	}
	opts := &redismessages.Options{KeyPrefix: prefix}
	for name, c := range map[string]struct {
		url, thread string
		code        host.Code
	}{
		"no url":           {"pa55word", "t1", host.InvalidArgument},
		"a broken url":     {"redis://:pa55word@h:x", "t1", host.InvalidArgument},
		"nobody there":     {"unix://" + filepath.Join(t.TempDir(), "none"), "t1", host.Unavailable},
		"a wrong password": {as("no"), "t1", host.Unauthenticated},
		"not allowed":      {as("pa55word"), "t1", host.PermissionDenied},
		"another type":     {url, "text", host.FailedPrecondition},
		"no thread":        {url, "", host.InvalidArgument},
		"NUL":              {url, "a\x00b", host.InvalidArgument},
		"a long id":        {url, strings.Repeat("x", 257), host.InvalidArgument},
	} {
		s, err := redismessages.Open(t.Context(), c.url, opts)
		err = add(s, err, c.thread)
		if host.CodeOf(err) != c.code {
			t.Errorf("%s: %v (%s); want code %s", name, err, host.CodeOf(err), c.code)
			continue
		}
		for _, secret := range append(secretsOf(t, url), "pa55word", prefix) {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the error shows %q: %v", name, secret, err)
			}
		}
	}
	if _, err := redismessages.New(connect(t), &redismessages.Options{KeyPrefix: "\xff"}); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("a prefix that is no UTF-8: %v", err)
	}
}

// secretsOf returns the parts of the tests' address that no error and no state may
// show: all of it, the place of the server, and the password.
func secretsOf(t *testing.T, url string) []string {
	t.Helper()
	u, err := neturl.Parse(url)
	if err != nil {
		t.Fatal("the address of the tests' server is no URL")
	}
	secrets := []string{url, u.Host + u.Path}
	if password, ok := u.User.Password(); ok {
		secrets = append(secrets, password)
	}
	return secrets
}

// A full server refuses the command inside a transaction, and then the transaction
// with another error: the caller gets the first.
func TestFullServerIsResourceExhausted(t *testing.T) {
	url := ownServer(t, "--maxmemory", "2mb", "--maxmemory-policy", "noeviction")
	s, err := redismessages.Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	store := storeOf(t, s, "t1")
	stored := 0
	for ; stored < 100 && err == nil; stored++ {
		err = store.AddMessages(t.Context(), []*host.Message{host.UserText(fmt.Sprint(stored) + strings.Repeat("x", 100_000))})
	}
	if host.CodeOf(err) != host.ResourceExhausted || !strings.Contains(err.Error(), "MaxMessages") {
		t.Fatalf("message %d: %v (%s); want resource_exhausted with the option that helps", stored, err, host.CodeOf(err))
	}
	list, err := store.ListMessages(t.Context())
	if err != nil || len(list) != stored-1 {
		t.Errorf("%d messages, %v; want the %d before the refusal", len(list), err, stored-1)
	}
}

// The client library logs failed connections to the process's stderr by itself.
func TestClientPrintsNothing(t *testing.T) {
	if os.Getenv("REDISMESSAGES_CHILD") != "" {
		_, err := redismessages.Open(t.Context(), "redis://127.0.0.1:1/0", nil)
		if host.CodeOf(err) != host.Unavailable {
			t.Errorf("%v; want code unavailable", err)
		}
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestClientPrintsNothing$")
	cmd.Env = append(os.Environ(), "REDISMESSAGES_CHILD=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil || stderr.Len() > 0 {
		t.Errorf("%v; stderr: %q, want nothing", err, stderr.String())
	}
}

func TestAStateOfOtherStoresIsRefused(t *testing.T) {
	one, other := open(t, nil), open(t, nil)
	state, err := storeOf(t, one, "t1").Serialize(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.OpenStore(t.Context(), &host.StoreRequest{Tenant: "acme", State: state}); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("%v; want code %s", err, host.FailedPrecondition)
	}
}

// An agent's thread survives its process, with its messages where they were.
func TestAgentThreadInRedis(t *testing.T) {
	stores := open(t, &redismessages.Options{MaxMessages: 100})
	model := hosttest.NewModel(hosttest.Say("R1"), hosttest.Say("R2"))
	agent := testhost.NewAgent(t, "clerk", &host.AgentOptions{Model: model, Messages: stores})
	h := testhost.NewSingle(t, nil)
	thread, err := agent.NewThread(t.Context(), &host.ThreadOptions{Tenant: "acme", ID: "user_session_123"})
	if err != nil {
		t.Fatal(err)
	}
	var raw []byte
	for _, text := range []string{"one", "two"} {
		if _, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: text, AgentThread: thread}); err != nil {
			t.Fatal(err)
		}
		if raw, err = thread.Serialize(t.Context()); err != nil {
			t.Fatal(err)
		}
		if thread, err = agent.RestoreThread(t.Context(), raw, &host.ThreadOptions{Tenant: "acme"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := model.Requests()[1].Messages; len(got) != 3 {
		t.Errorf("the second run sees %d messages, want 3", len(got))
	}
	var e struct {
		Store struct{ Type string }
	}
	if err := json.Unmarshal(raw, &e); err != nil || e.Store.Type != "redis" || bytes.Contains(raw, []byte("R1")) {
		t.Errorf("serialized: %s, %v", raw, err)
	}
}
