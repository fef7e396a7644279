package usage

import (
	"context"
	"math"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
)

// Embedder returns an embedder whose calls are calls of a model for the ledger: each is
// reserved before it is made and settled after it, to the run that the context belongs to,
// or else to the use of the request's tenant outside runs. Its errors are those of e, of
// [llm.Embeddings.Check], and of a tenant's limits, which are a [llm.CallerError].
func (l *Ledger) Embedder(e llm.Embedder) llm.Embedder { return &countedEmbedder{e, l} }

type countedEmbedder struct {
	llm.Embedder
	ledger *Ledger
}

// Unwrap returns the embedder that the calls go to.
func (e *countedEmbedder) Unwrap() llm.Embedder { return e.Embedder }

// embedOutput is the output that a call of an embedder reserves: it has none, and a call
// without a maximum of output gets one of the plan's.
const embedOutput = 1

// Embed implements [llm.Embedder].
func (e *countedEmbedder) Embed(ctx context.Context, req *llm.EmbedRequest) (*llm.Embeddings, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	record := host.UsageOf(ctx)
	if record == nil {
		a := e.ledger.Account(req.Scope.Tenant)
		record = a.recordOutsideRuns()
		defer a.keep()()
	}
	call := &host.ModelCall{Agent: req.Scope.Agent, Model: e.Name(), Input: req.EstimateTokens(), MaxOutput: embedOutput}
	if err := record.ReserveModel(ctx, call); err != nil {
		return nil, &llm.CallerError{Err: err}
	}
	var used *host.Usage
	defer func() { record.SettleModel(call, used) }() // a call that panics has used nothing
	asked := time.Now()
	got, err := e.Embedder.Embed(ctx, req)
	if err != nil && ctx.Err() != nil && call.Waited > time.Since(asked) { // its time went in the wait for its turn
		return nil, &llm.CallerError{Err: err}
	}
	if err != nil {
		return nil, err
	}
	err = got.Check(req) // which estimates a usage that is missing
	if used = &got.Usage; err != nil {
		return nil, err
	}
	return got, nil
}

// recordOutsideRuns returns a record of a tenant's use outside runs: one that was closed,
// whose further use counts there.
func (a *Account) recordOutsideRuns() *runRecord {
	return &runRecord{entry: &entry{account: a, n: math.MaxUint64}}
}

// keep has the ledger not forget the account until the function that it returns is called.
func (a *Account) keep() (done func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.runs = max(a.runs-1, 0)
	}
}
