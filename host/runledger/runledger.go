package runledger

import (
	"context"
	"time"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/llm"
)

// Ledger bounds and records what tenants use over all of their runs, beside the limits
// of each. Package usage has one. Implementations are safe for concurrent use.
type Ledger interface {
	// AdmitRun is called before anything of a run is stored or sent: before the run
	// waits for its thread, and again when it has the thread. It fails if the tenant
	// has nothing left, or if a first call of model would be refused for its rate or
	// its missing price; model is "" where it is not known yet. The error has code
	// resource_exhausted, the limit's name and RetryAfter, or failed_precondition for
	// the price. It counts nothing, waits for nothing, and writes nothing.
	AdmitRun(ctx context.Context, tenant, model string) error

	// OpenRun opens the usage record of a run that was admitted. key names the
	// caller's credential: the Key of its request.
	OpenRun(scope llm.Scope, key string) Record
}

// Record counts what one run uses, the agents that run as its tools included. An
// error of it ends the run with its code: resource_exhausted, and retryable, for a limit of
// the tenant that is used up for now. It is safe for concurrent use.
type Record interface {
	// ReserveModel is called before a model is asked, each time. It reserves what the
	// call may use at most, sets the call's maximum of output if it has none, and may
	// wait until it is the tenant's turn, as long as ctx.
	ReserveModel(ctx context.Context, call *ModelCall) error

	// SettleModel counts what a call has used in the place of what was reserved, even
	// if that was less: the next call is then refused. used is nil for a call that has
	// used nothing. It is called in canceled runs too, and must not wait.
	SettleModel(call *ModelCall, used *chat.Usage)

	// ReserveTools is called before n tools are called together.
	ReserveTools(ctx context.Context, n int) error

	// UseTime counts time that the run has taken: before each model call and each batch
	// of tool calls, and at its end. Waiting for a thread or for a turn at a model is
	// not counted. When it is used up, ReserveModel and ReserveTools fail. It is called
	// in canceled runs too, and must not wait.
	UseTime(d time.Duration)

	// Close ends the record of a run, which is on that thread. With rides a turn of the
	// run is about to be stored, and the record may return entries for its commit. A
	// second call does nothing. It must not wait.
	Close(thread string, rides bool) []Entry
}

// ModelCall is a call of a model that is about to be made.
type ModelCall struct {
	Agent     string // "" for a router
	Model     string
	Input     int // tokens of the request, counted or estimated
	MaxOutput int // tokens of the answer; 0, for none, is set by ReserveModel

	Waited      time.Duration // by ReserveModel, for the tenant's turn
	Reservation any           // of the usage record, between ReserveModel and SettleModel
}

// Entry is a record of another part of the program, such as the usage of the run,
// that is stored in the commit of a turn: one commit then does for both. Its part stores
// it by a commit of its own if Stored is not called.
type Entry struct {
	Store any    // the store, such as a kv.Driver; an adapter compares it with its own by ==
	Key   string // in the tenant's partition of the store, where no other entry has it
	Value []byte // as the store keeps it; not to be changed

	// Stored is called after the commit that the entry was in. It is not called if the
	// commit failed, or may have failed. It must not wait.
	Stored func()
}
