package main

// Scenario: commands one after another continue a thread whose messages are in Redis.

import (
	"fmt"
	"os"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/internal/testcode"
)

// redisVariable holds the address of a Redis server that tests may use.
const redisVariable = "AGENTHOST_TEST_REDIS"

// An agent's messages may lie in Redis: the next command continues with them.
func TestAgentsMessagesInRedis(t *testing.T) {
	url := os.Getenv(redisVariable)
	if url == "" {
		t.Skip("set " + redisVariable + " to the address of a Redis or Valkey server, such as redis://localhost:6379")
	}
	dir, cache := testcode.Project(t), t.TempDir()
	writeText(t, dir, "agenthost.yaml", fmt.Sprintf(`version: 1
agents: {clerk: {messages: {store: redis, address_env: URL, key_prefix: %s, max_messages: 4}}}
models: {m: {provider: scripted, rules: rules.yaml}}
`, host.NewID()))
	writeText(t, dir, "rules.yaml", "rules: [{match: {turn: 1}, reply: {text: the first}}, {match: {turn: 2}, reply: {text: the second}}, {match: {turn: 3}, reply: {text: the third}}]\n")
	for _, want := range []string{"the first", "the second", "the third", "the third"} { // of those that are kept
		wantExit(t, variables(map[string]string{"AGENTHOST_CACHE": cache, "URL": url}), 0, want, "run", dir, "--data", dir+"/data", "--thread", "t1", "hi")
	}
}
