package fallbackmodel

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
)

// The defaults and bounds of [Options].
const (
	DefaultCooldown = 30 * time.Second
	maxModels       = 8
)

// Model is a model that asks the next of several when one fails. It serves wherever a
// model does: for an agent, a network or a run. It is safe for concurrent use.
type Model struct {
	models   []host.Model
	on       []host.Code
	cooldown time.Duration

	mu     sync.Mutex
	cooled []cooling // by model
}

// cooling says until when a model that failed is asked last, and why.
type cooling struct {
	until time.Time
	err   *host.Error
}

// Options are the optional parts of a fallback.
type Options struct {
	// On are the codes after which the next model is asked: by default unavailable,
	// deadline_exceeded, resource_exhausted and internal, which another server may
	// not have. Errors that the request causes (invalid_argument) and errors that the
	// operator must correct (unauthenticated, permission_denied, not_found) are
	// returned.
	On []host.Code

	// Cooldown is how long a failed model is asked last (30 s). With a negative one
	// every request begins with the first model.
	Cooldown time.Duration
}

var _ host.Model = (*Model)(nil)

// New returns a model that asks the first of models, and the next one when that fails
// before a part of its answer has been passed on; an answer that a user has seen cannot
// be taken back. Each change is announced by a chunk and so by an event,
// [runevent.ModelFellBack]. A failed model is asked last for a while, so that not every
// request waits for a model that is down. The end of the caller's context (canceled,
// its deadline) is never a reason. If all models fail, the error is the last one's,
// with the messages of the others. Each model's own retries come first.
//
// The error has code invalid_argument for less than one model or more than eight, a nil
// model, or a code that does not exist.
func New(models []host.Model, opts *Options) (*Model, error) {
	if opts == nil {
		opts = &Options{}
	}
	if len(models) == 0 || len(models) > maxModels || slices.Contains(models, nil) {
		return nil, host.Errorf(host.InvalidArgument, "fallback has %d models, of which none may be nil, not 1 to %d", len(models), maxModels)
	}
	f := &Model{models: slices.Clone(models), on: slices.Clone(opts.On), cooldown: opts.Cooldown, cooled: make([]cooling, len(models))}
	for _, c := range f.on {
		if !c.Valid() || c == host.Canceled {
			return nil, host.Errorf(host.InvalidArgument, "fallback on the code %q", c).WithHint("name codes of errors other than canceled")
		}
	}
	if f.on == nil {
		f.on = []host.Code{host.Unavailable, host.DeadlineExceeded, host.ResourceExhausted, host.Internal}
	}
	if f.cooldown == 0 {
		f.cooldown = DefaultCooldown
	}
	return f, nil
}

// Name returns the name of the first model.
func (f *Model) Name() string { return f.models[0].Name() }

// Unwrap returns the first model, whose provider is the model's.
func (f *Model) Unwrap() host.Model { return f.models[0] }

// Generate implements [host.Model].
func (f *Model) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		order, skipped := f.order(time.Now())
		if skipped != nil && !yield(llm.Chunk{Fallback: f.notice(0, order[0], skipped)}, nil) {
			return
		}
		var said []string
		for n, i := range order {
			began, left, err := f.ask(ctx, f.models[i], req, yield)
			if left {
				return
			}
			f.judge(ctx, i, err)
			if err == nil {
				return
			}
			said = append(said, f.models[i].Name()+": "+err.Error())
			if began || n+1 == len(order) || ctx.Err() != nil || !slices.Contains(f.on, host.CodeOf(err)) {
				yield(llm.Chunk{}, afterAll(err, said))
				return
			}
			if !yield(llm.Chunk{Fallback: f.notice(i, order[n+1], fault.AsError(err))}, nil) {
				return
			}
		}
	}
}

// order returns the indices of the models in the order of asking: those that cool down
// come last. skipped is why the first model does not come first, nil if it does.
func (f *Model) order(now time.Time) (order []int, skipped *host.Error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var later []int
	for i := range f.models {
		if now.Before(f.cooled[i].until) {
			later = append(later, i)
		} else {
			order = append(order, i)
		}
	}
	if order = append(order, later...); order[0] != 0 {
		skipped = f.cooled[0].err
	}
	return order, skipped
}

// ask passes on the answer of one model. began says that a part of the answer was
// passed on, left that the caller has stopped reading.
func (f *Model) ask(ctx context.Context, m host.Model, req *llm.Request, yield func(llm.Chunk, error) bool) (began, left bool, err error) {
	for chunk, err := range m.Generate(ctx, req) {
		if err != nil {
			return began, false, err
		}
		began = began || chunk.Text != "" || chunk.Reasoning != "" || chunk.ToolCall != nil
		if !yield(chunk, nil) {
			return began, true, nil
		}
		if chunk.Response != nil {
			return began, false, nil
		}
	}
	return began, false, errNoAnswer()
}

func errNoAnswer() error {
	return host.Errorf(host.Unavailable, "answer ends without a result").WithHint("the model's server broke off; try again")
}

// judge begins the cooldown of a model that failed, and ends that of a model that
// answered.
func (f *Model) judge(ctx context.Context, i int, err error) {
	if f.cooldown < 0 || ctx.Err() != nil || err != nil && !slices.Contains(f.on, host.CodeOf(err)) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cooled[i] = cooling{}
	if err != nil {
		f.cooled[i] = cooling{time.Now().Add(f.cooldown), fault.AsError(err)}
	}
}

func (f *Model) notice(from, to int, why *host.Error) *llm.FallbackNotice {
	return &llm.FallbackNotice{From: f.models[from].Name(), To: f.models[to].Name(), Code: why.Code, Reason: why.Message}
}

// afterAll returns the error of the last model, with the messages of the models before
// it.
func afterAll(err error, said []string) error {
	if len(said) < 2 {
		return err
	}
	e := &host.Error{Code: host.CodeOf(err), Message: fmt.Sprintf("%d models failed: %s", len(said), strings.Join(said, "; ")), Err: err}
	var last *host.Error
	if errors.As(err, &last) {
		e.Retryable, e.Hint = last.Retryable, last.Hint
	}
	return e
}
