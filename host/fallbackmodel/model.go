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
)

// The defaults and bounds of [Options].
const (
	DefaultCooldown = 30 * time.Second
	maxModels       = 8
)

// Model is a model that has others to ask when one fails. It stands where any
// model does: an agent's, a network's, a run's. It is safe for concurrent use.
type Model struct {
	models   []host.Model
	on       []host.Code
	cooldown time.Duration

	mu     sync.Mutex
	cooled []cooling // by model
}

// cooling is a model that failed and is left alone for a while.
type cooling struct {
	until time.Time
	err   *host.Error
}

// Options are the optional parts of a fallback.
type Options struct {
	// On are the codes after which the next model is asked: by default unavailable,
	// deadline_exceeded, resource_exhausted and internal, which another server may
	// not have. What the request itself causes (invalid_argument) and what somebody
	// must see and mend (unauthenticated, permission_denied, not_found) is returned.
	On []host.Code

	// Cooldown is for how long a model that failed is asked last (30 s). A negative
	// one has every request begin with the first model.
	Cooldown time.Duration
}

var _ host.Model = (*Model)(nil)

// New returns a model that asks the first of models, and the next one
// when that fails before anything of its answer has been passed on; what was
// shown to somebody cannot be taken back. Each change is announced by a chunk
// and so by an event, [host.ModelFellBack]. A failed model is asked last for a while,
// so that not every request waits for what is down. The caller's own end
// (canceled, its deadline) is never a reason. If all fail the error is the last
// one's, with what the others said. Each model's own retries come first.
//
// Code invalid_argument for less than one model or more than eight, one that is
// nil, or a code that does not exist.
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

// Generate implements [host.Model].
func (f *Model) Generate(ctx context.Context, req *host.ModelRequest) iter.Seq2[host.ModelChunk, error] {
	return func(yield func(host.ModelChunk, error) bool) {
		order, skipped := f.order(time.Now())
		if skipped != nil && !yield(host.ModelChunk{Fallback: f.notice(0, order[0], skipped)}, nil) {
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
				yield(host.ModelChunk{}, afterAll(err, said))
				return
			}
			if !yield(host.ModelChunk{Fallback: f.notice(i, order[n+1], host.AsError(err))}, nil) {
				return
			}
		}
	}
}

// order returns which models to ask one after the other: those that cool down
// last. skipped is why the first is not first.
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

// ask passes on the answer of one model. began says that something of it has
// been, left that nobody listens any more.
func (f *Model) ask(ctx context.Context, m host.Model, req *host.ModelRequest, yield func(host.ModelChunk, error) bool) (began, left bool, err error) {
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

// judge has a model cool down that has failed, and ends that of one that has not.
func (f *Model) judge(ctx context.Context, i int, err error) {
	if f.cooldown < 0 || ctx.Err() != nil || err != nil && !slices.Contains(f.on, host.CodeOf(err)) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cooled[i] = cooling{}
	if err != nil {
		f.cooled[i] = cooling{time.Now().Add(f.cooldown), host.AsError(err)}
	}
}

func (f *Model) notice(from, to int, why *host.Error) *host.FallbackNotice {
	return &host.FallbackNotice{From: f.models[from].Name(), To: f.models[to].Name(), Code: why.Code, Reason: why.Message}
}

// afterAll is the error of the last model that was asked, with what those before
// it said.
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
