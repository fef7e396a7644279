package project

import (
	"context"
	"maps"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
	"github.com/agenthost/agenthost/host/redismessages"
	"github.com/agenthost/agenthost/host/threads"
)

// openMessages opens the message stores of the agents that have one of their own. They
// are opened once: a rebuilt agent keeps its store.
func (a *Project) openMessages(ctx context.Context) error {
	a.messages = map[string]host.MessageStores{}
	for _, name := range slices.Sorted(maps.Keys(a.config.Agents)) {
		mc := a.config.Agents[name].Messages
		if mc == nil {
			continue
		}
		at := configfile.Keys("agents", name, "messages")
		stores, err := a.messagesOf(ctx, at, mc)
		if err != nil {
			return a.config.Wrap(err, at)
		}
		a.messages[name] = stores
	}
	return nil
}

func (a *Project) messagesOf(ctx context.Context, at configfile.KeyPath, mc *configfile.Messages) (host.MessageStores, error) {
	if mc.Store == configfile.RedisMessages {
		return a.redis(ctx, at, mc)
	}
	var reducer host.MessageReducer
	if mc.Reducer != nil {
		r, err := a.reducer(at.To("reducer"), mc.Reducer.Use, mc.Reducer.Config)
		if err != nil {
			return nil, err
		}
		reducer = r
	}
	trigger := host.ReducerTrigger(mc.Trigger)
	if mc.Store == configfile.InThread {
		return host.NewMemoryMessages(&host.MemoryMessagesOptions{Reducer: reducer, Trigger: trigger, Tokens: a.tokens})
	}
	return a.threads.MessageStores(&threads.MessagesOptions{MaxMessages: mc.MaxMessages, Reducer: reducer, Trigger: trigger,
		ReduceOptions: threads.ReduceOptions{Tokens: a.tokens}})
}

func (a *Project) redis(ctx context.Context, at configfile.KeyPath, mc *configfile.Messages) (host.MessageStores, error) {
	address := a.getenv(mc.AddressEnv)
	if address == "" {
		return nil, a.config.ErrorAt(at.To("address_env"), "the environment variable %s is not set", mc.AddressEnv).
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
