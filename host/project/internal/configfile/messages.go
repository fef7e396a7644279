package configfile

import (
	"cmp"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host"
)

// Messages configures a message store for an agent that runs by itself: the agent then
// has agent threads, whose serialized form is stored in the data directory.
type Messages struct {
	Store       string `yaml:"store"`        // own (default), redis, or memory: in the serialized thread
	AddressEnv  string `yaml:"address_env"`  // redis: the variable that holds the server's address
	KeyPrefix   string `yaml:"key_prefix"`   // redis
	MaxMessages int    `yaml:"max_messages"` // own, redis
	Reducer     *Use   `yaml:"reducer"`      // own, memory
	Trigger     string `yaml:"trigger"`      // of the reducer
}

// The stores of messages.
const (
	ownMessages   = "own"
	RedisMessages = "redis"
	InThread      = "memory"
)

func messageStores() []string { return []string{ownMessages, RedisMessages, InThread} }

func reducerTriggers() []string {
	return []string{string(host.BeforeMessagesRetrieval), string(host.AfterMessageAdded)}
}

// checkMessages checks an agent's message store without opening it.
func (c *Config) checkMessages(name string) error {
	mc, at := c.Agents[name].Messages, Keys("agents", name, "messages")
	if mc == nil {
		return nil
	}
	store := cmp.Or(mc.Store, ownMessages)
	if !slices.Contains(messageStores(), store) {
		return c.ErrorAt(at.To("store"), "agent %q keeps its messages in %q", name, store).WithHint("use %s", strings.Join(messageStores(), ", "))
	}
	for _, k := range []struct {
		key   string
		set   bool
		known []string
	}{
		{"address_env", mc.AddressEnv != "", []string{RedisMessages}},
		{"key_prefix", mc.KeyPrefix != "", []string{RedisMessages}},
		{"max_messages", mc.MaxMessages != 0, []string{ownMessages, RedisMessages}},
		{"reducer", mc.Reducer != nil, []string{ownMessages, InThread}},
		{"trigger", mc.Trigger != "", []string{ownMessages, InThread}},
	} {
		if k.set && !slices.Contains(k.known, store) {
			return c.ErrorAt(at.To(k.key), "the messages of agent %q have %s, and their store is %s", name, k.key, store).
				WithHint("it is for %s", strings.Join(k.known, " and "))
		}
	}
	switch {
	case mc.MaxMessages < 0:
		return c.ErrorAt(at.To("max_messages"), "max_messages is %d", mc.MaxMessages).WithHint("leave it out for no bound")
	case mc.Trigger != "" && mc.Reducer == nil:
		return c.ErrorAt(at.To("trigger"), "there is no reducer that it triggers").WithHint("name one: reducer: {use: %scounting, config: 20}", ReducePrefix)
	case mc.Trigger != "" && !slices.Contains(reducerTriggers(), mc.Trigger):
		return c.ErrorAt(at.To("trigger"), "trigger is %q", mc.Trigger).WithHint("use %s", strings.Join(reducerTriggers(), " or "))
	case mc.Reducer != nil && mc.Reducer.OnFailure != "":
		return c.ErrorAt(at.To("reducer", "on_failure"), "the reducer of a store has no on_failure").WithHint("remove it: one that fails ends the run")
	case store == InThread && mc.Reducer != nil && mc.Reducer.Use == ReducePrefix+"progressive":
		return c.ErrorAt(at.To("reducer", "use"), "progressive summaries are of threads that the host keeps, and these messages are in their thread's serialized form").
			WithHint("use %ssummarizing, or store: %s", ReducePrefix, ownMessages)
	case store == RedisMessages && mc.AddressEnv == "":
		return c.ErrorAt(at, "it is not said where Redis is").WithHint("write: address_env: REDIS_URL, the variable that holds an address such as redis://localhost:6379")
	}
	return nil
}
