package host

import (
	"slices"

	"github.com/agenthost/agenthost/host/internal/replay"
)

// checkpoint returns the checkpoint of a run that ends with questions.
func (r *run) checkpoint() *replay.Checkpoint {
	interrupted := r.conv.results[len(r.conv.results)-1]
	before := slices.Concat(r.conv.earlier, r.conv.results[:len(r.conv.results)-1])
	c := &replay.Checkpoint{
		V: replay.Version, Input: r.conv.input, Branch: r.thread.branch, State: r.state.JSON(), Instructions: r.content.instructions, Parameters: r.content.parameters, Client: r.content.client.terms,
		Results: before, Iterations: r.routes.iterations - 1, Stack: r.routes.stack,
		Tokens: r.ledger.Total.Tokens.Load(), ToolCalls: r.ledger.Total.ToolCalls.Load(), Executed: r.ledger.Total.Instructions.Load(),
		Artifacts: r.ledger.Total.Artifacts.Load(), Stored: r.ledger.Total.ArtifactBytes.Load(),
		Agent: interrupted.Agent, Rounds: interrupted.Rounds, Calls: r.journal.openCalls,
	}
	messages := r.conv.messages()
	c.Last = messages[len(messages)-1].ID
	if r.thread.history == nil || r.thread.history.get == nil || r.thread.history.appendResult == nil {
		c.Messages, c.Providers = messages, r.thread.providers.JSON(false)
	}
	return c
}
