package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/redismessages"
	"github.com/agenthost/agenthost/host/threads"
)

// messagesConfig says where the messages of an agent on its own are kept: then it
// has agent threads, whose serialized form lies with the other data.
type messagesConfig struct {
	Store       string     `yaml:"store"`        // own (default), redis, or memory: in the serialized thread
	AddressEnv  string     `yaml:"address_env"`  // redis: the variable that holds the server's address
	KeyPrefix   string     `yaml:"key_prefix"`   // redis
	MaxMessages int        `yaml:"max_messages"` // own, redis
	Reducer     *useConfig `yaml:"reducer"`      // own, memory
	Trigger     string     `yaml:"trigger"`      // of the reducer
}

// The stores of messages.
const (
	ownMessages   = "own"
	redisMessages = "redis"
	inThread      = "memory"
)

func messageStores() []string { return []string{ownMessages, redisMessages, inThread} }

func reducerTriggers() []string {
	return []string{string(host.BeforeMessagesRetrieval), string(host.AfterMessageAdded)}
}

// checkMessages holds an agent's message store to what can be seen without opening
// it.
func (c *config) checkMessages(name string) error {
	mc, at := c.Agents[name].Messages, keys("agents", name, "messages")
	if mc == nil {
		return nil
	}
	store := cmp.Or(mc.Store, ownMessages)
	if !slices.Contains(messageStores(), store) {
		return c.errorAt(at.to("store"), "agent %q keeps its messages in %q", name, store).WithHint("use %s", strings.Join(messageStores(), ", "))
	}
	for _, k := range []struct {
		key   string
		set   bool
		known []string
	}{
		{"address_env", mc.AddressEnv != "", []string{redisMessages}},
		{"key_prefix", mc.KeyPrefix != "", []string{redisMessages}},
		{"max_messages", mc.MaxMessages != 0, []string{ownMessages, redisMessages}},
		{"reducer", mc.Reducer != nil, []string{ownMessages, inThread}},
		{"trigger", mc.Trigger != "", []string{ownMessages, inThread}},
	} {
		if k.set && !slices.Contains(k.known, store) {
			return c.errorAt(at.to(k.key), "the messages of agent %q have %s, and their store is %s", name, k.key, store).
				WithHint("it is for %s", strings.Join(k.known, " and "))
		}
	}
	switch {
	case mc.MaxMessages < 0:
		return c.errorAt(at.to("max_messages"), "max_messages is %d", mc.MaxMessages).WithHint("leave it out for no bound")
	case mc.Trigger != "" && mc.Reducer == nil:
		return c.errorAt(at.to("trigger"), "there is no reducer that it triggers").WithHint("name one: reducer: {use: %scounting, config: 20}", reducePrefix)
	case mc.Trigger != "" && !slices.Contains(reducerTriggers(), mc.Trigger):
		return c.errorAt(at.to("trigger"), "trigger is %q", mc.Trigger).WithHint("use %s", strings.Join(reducerTriggers(), " or "))
	case mc.Reducer != nil && mc.Reducer.OnFailure != "":
		return c.errorAt(at.to("reducer", "on_failure"), "the reducer of a store has no on_failure").WithHint("remove it: one that fails ends the run")
	case store == inThread && mc.Reducer != nil && mc.Reducer.Use == reducePrefix+"progressive":
		return c.errorAt(at.to("reducer", "use"), "progressive summaries are of threads that the host keeps, and these messages are in their thread's serialized form").
			WithHint("use %ssummarizing, or store: %s", reducePrefix, ownMessages)
	case store == redisMessages && mc.AddressEnv == "":
		return c.errorAt(at, "it is not said where Redis is").WithHint("write: address_env: REDIS_URL, the variable that holds an address such as redis://localhost:6379")
	}
	return nil
}

// openMessages opens the message stores of the agents that have one of their own.
// Once: agents that are made anew go on with them.
func (a *app) openMessages(ctx context.Context) error {
	a.messages = map[string]host.MessageStores{}
	for _, name := range sortedKeys(a.config.Agents) {
		mc := a.config.Agents[name].Messages
		if mc == nil {
			continue
		}
		at := keys("agents", name, "messages")
		stores, err := a.messagesOf(ctx, at, mc)
		if err != nil {
			return a.config.wrap(err, at)
		}
		a.messages[name] = stores
	}
	return nil
}

func (a *app) messagesOf(ctx context.Context, at place, mc *messagesConfig) (host.MessageStores, error) {
	if mc.Store == redisMessages {
		return a.redis(ctx, at, mc)
	}
	var reducer host.MessageReducer
	if mc.Reducer != nil {
		r, err := a.reducer(at.to("reducer"), mc.Reducer.Use, mc.Reducer.Config)
		if err != nil {
			return nil, err
		}
		reducer = r
	}
	trigger := host.ReducerTrigger(mc.Trigger)
	if mc.Store == inThread {
		return host.NewMemoryMessages(&host.MemoryMessagesOptions{Reducer: reducer, Trigger: trigger, Tokens: a.tokens})
	}
	return a.threads.MessageStores(&threads.MessagesOptions{MaxMessages: mc.MaxMessages, Reducer: reducer, Trigger: trigger,
		ReduceOptions: threads.ReduceOptions{Tokens: a.tokens}})
}

func (a *app) redis(ctx context.Context, at place, mc *messagesConfig) (host.MessageStores, error) {
	address := a.env.getenv(mc.AddressEnv)
	if address == "" {
		return nil, a.config.errorAt(at.to("address_env"), "the environment variable %s is not set", mc.AddressEnv).
			WithHint("set it to an address such as redis://localhost:6379")
	}
	stores, err := redismessages.Open(ctx, address, &redismessages.Options{KeyPrefix: mc.KeyPrefix, MaxMessages: mc.MaxMessages, Logger: a.logger})
	if err != nil {
		e := *host.AsError(err)
		if e.Err = err; e.Hint == "" {
			e.Hint = "look at " + mc.AddressEnv + ", and whether the server runs"
		}
		return nil, &e
	}
	a.closers = append(a.closers, stores.Close)
	return stores, nil
}

// keptThread is the agent thread of a conversation, and what it was saved at.
type keptThread struct {
	*host.AgentThread
	head string
}

// agentThread returns the agent thread that the session goes on with, nil if its
// target has none.
func (s *session) agentThread(ctx context.Context) (*keptThread, error) {
	agent, ok := s.target.(*host.Agent)
	if !ok || s.app.messages[agent.Name()] == nil {
		return nil, nil
	}
	opts := &host.ThreadOptions{Tenant: s.app.tenantOr(s.tenant)}
	if s.thread != "" {
		data, head, err := s.app.threads.For(opts.Tenant).LoadAgentThread(ctx, s.thread)
		if err == nil {
			t, err := agent.RestoreThread(ctx, data, opts)
			return &keptThread{t, head}, err
		}
		if host.CodeOf(err) != host.NotFound {
			return nil, err
		}
		opts.ID = s.thread
	}
	t, err := agent.NewThread(ctx, opts)
	return &keptThread{AgentThread: t}, err
}

// save keeps the agent thread as the turn left it.
func (s *session) save(ctx context.Context, t *keptThread) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), host.DefaultCommitTimeout)
	defer cancel()
	data, err := t.Serialize(ctx)
	if err == nil {
		_, err = s.app.threads.For(t.Tenant()).SaveAgentThread(ctx, t.ID(), data, t.head)
	}
	return err
}

// inAgentThread has a request run in the session's agent thread, if it has one.
// done keeps what the turn left of it, and returns the turn's error with its own.
func (s *session) inAgentThread(ctx context.Context, req *host.Request) (done func(error) error, err error) {
	t, err := s.agentThread(ctx)
	if err != nil || t == nil {
		return func(err error) error { return err }, err
	}
	if req.Resume != "" {
		return nil, host.Errorf(host.Unimplemented, "the messages of agent %q are in a store of its own: its runs are not resumed here", s.target.Name()).
			WithHint("say it again in thread %s", t.ID())
	}
	req.AgentThread, req.Thread = t.AgentThread, ""
	s.thread = t.ID()
	return func(err error) error {
		if saveErr := s.save(ctx, t); saveErr != nil {
			return errors.Join(err, saveErr)
		}
		return err
	}, nil
}
