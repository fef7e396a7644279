package project

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
	"github.com/agenthost/agenthost/host/redismessages"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/tokens"
)

// messageSet is the message stores of the agents that have one of their own.
type messageSet struct {
	config   *configfile.Config
	getenv   func(string) string
	logger   *slog.Logger
	reducers *reducerSet
	threads  *threads.Store // set when the data directory is open
	tokens   *tokens.Counter
	closers  *closers

	byAgent map[string]host.MessageStores
}

// open opens the message stores of the agents that have one of their own. They
// are opened once: a rebuilt agent keeps its store.
func (s *messageSet) open(ctx context.Context) error {
	s.byAgent = map[string]host.MessageStores{}
	for _, name := range slices.Sorted(maps.Keys(s.config.Agents)) {
		mc := s.config.Agents[name].Messages
		if mc == nil {
			continue
		}
		at := configfile.Keys("agents", name, "messages")
		stores, err := s.openOne(ctx, at, mc)
		if err != nil {
			return s.config.Wrap(err, at)
		}
		s.byAgent[name] = stores
	}
	return nil
}

func (s *messageSet) openOne(ctx context.Context, at configfile.KeyPath, mc *configfile.Messages) (host.MessageStores, error) {
	if mc.Store == configfile.RedisMessages {
		return s.redis(ctx, at, mc)
	}
	var reducer host.MessageReducer
	if mc.Reducer != nil {
		r, err := s.reducers.make(at.To("reducer"), mc.Reducer.Use, mc.Reducer.Config)
		if err != nil {
			return nil, err
		}
		reducer = r
	}
	trigger := host.ReducerTrigger(mc.Trigger)
	if mc.Store == configfile.InThread {
		return host.NewMemoryMessages(&host.MemoryMessagesOptions{Reducer: reducer, Trigger: trigger, Tokens: s.tokens})
	}
	return s.threads.MessageStores(&threads.MessagesOptions{MaxMessages: mc.MaxMessages, Reducer: reducer, Trigger: trigger,
		ReduceOptions: threads.ReduceOptions{Tokens: s.tokens}})
}

func (s *messageSet) redis(ctx context.Context, at configfile.KeyPath, mc *configfile.Messages) (host.MessageStores, error) {
	address := s.getenv(mc.AddressEnv)
	if address == "" {
		return nil, s.config.ErrorAt(at.To("address_env"), "the environment variable %s is not set", mc.AddressEnv).
			WithHint("set it to an address such as redis://localhost:6379")
	}
	stores, err := redismessages.Open(ctx, address, &redismessages.Options{KeyPrefix: mc.KeyPrefix, MaxMessages: mc.MaxMessages, Logger: s.logger})
	if err != nil {
		e := *fault.AsError(err)
		if e.Err = err; e.Hint == "" {
			e.Hint = "look at " + mc.AddressEnv + ", and whether the server runs"
		}
		return nil, &e
	}
	s.closers.add(stores.Close)
	return stores, nil
}
