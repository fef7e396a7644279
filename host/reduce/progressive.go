package reduce

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/agenthost/agenthost/host"
)

// ProgressiveJob is the name of the jobs that a [Progressive] leaves.
const ProgressiveJob = "agenthost/summarize"

// DefaultBatch is the default of ProgressiveOptions.Batch.
const DefaultBatch = 50

// maxStages bounds how many summaries one job makes.
const maxStages = 100

// ProgressiveOptions are the optional parts of [NewProgressive].
type ProgressiveOptions struct {
	Batch      int       // how many messages beyond the target make it worth a summary (50)
	Prompt     string    // default: DefaultPrompt
	ToolPairs  ToolPairs // default: KeepToolPairs
	InputBytes int       // default: DefaultSummaryInputBytes
}

// Progressive is a reducer for long threads that makes nobody wait: a view is the
// newest summary that is stored and what came after it, and no model is asked for
// it. When more than the target and a batch came after it, a job is left for after
// the turn, which gives the model its summary and what has become old since, and
// stores the next one with the message that it reaches to. So each message is
// summarized once, however long the thread gets. Until the first summary is there,
// and while jobs fail, a view is longer: put a reducer that drops behind it if
// that may not be.
type Progressive struct {
	own     *summarizing
	batch   int
	history host.HistoryLoader
	jobs    host.Enqueuer
}

var _ Reducer = (*Progressive)(nil)

// NewProgressive returns a progressive reducer that leaves about target messages
// beside the summary. Jobs load the thread from history, which must return the
// message that the summary reaches to, so its window is larger than the target and
// some batches; summaries are kept in summaries. Have jobs' queue call HandleJob
// for jobs named [ProgressiveJob]. Code invalid_argument for a target below 1, a
// negative batch, and where something is missing.
func NewProgressive(model host.Model, target int, history host.HistoryLoader, jobs host.Enqueuer, summaries Summaries, opts *ProgressiveOptions) (*Progressive, error) {
	if opts == nil {
		opts = &ProgressiveOptions{}
	}
	if history == nil || jobs == nil || summaries == nil {
		return nil, host.Errorf(host.InvalidArgument, "a progressive reducer without a history, a queue or a place for summaries")
	}
	if err := atLeast(0, opts.Batch, "the batch of a progressive reducer"); err != nil {
		return nil, err
	}
	p := &Progressive{batch: opts.Batch, history: history, jobs: jobs}
	if p.batch == 0 {
		p.batch = DefaultBatch
	}
	r, err := Summarizing(model, target, &SummarizingOptions{
		Threshold: p.batch, Prompt: opts.Prompt, ToolPairs: opts.ToolPairs, InputBytes: opts.InputBytes, Summaries: summaries})
	if err != nil {
		return nil, err
	}
	p.own = r.(*summarizing)
	return p, nil
}

// Reduce implements [Reducer]. What cannot be queued is an error, unless it is
// queued already or the queue is full.
func (p *Progressive) Reduce(ctx context.Context, view *host.View) ([]*host.Message, error) {
	past, turn := history(view)
	system, rest := takeSystem(past)
	known, err := p.own.Summaries.Load(ctx, view.Scope)
	if err != nil {
		return nil, err
	}
	summary, rest := latest(known, rest)
	if p.own.cut(rest) > 0 && view.Scope.Thread != "" {
		if err := p.leave(ctx, view.Scope, summary, len(rest)); err != nil {
			return nil, err
		}
	}
	out := system
	if summary != nil {
		out = append(out, summary.message())
	}
	return append(append(out, rest...), turn...), nil
}

// leave leaves one job for each stage of a thread; another one if the thread has
// grown by a batch and the stage is still the same.
func (p *Progressive) leave(ctx context.Context, scope host.Scope, summary *Summary, length int) error {
	through := ""
	if summary != nil {
		through = summary.Through
	}
	raw, err := json.Marshal(scope)
	if err != nil {
		return err
	}
	_, err = p.jobs.Enqueue(ctx, &host.Job{Name: ProgressiveJob, Payload: raw, Scope: scope,
		Key: fmt.Sprintf("%.128s/%.128s/%d", scope.Thread, through, length/p.batch), Serial: ProgressiveJob + "/" + strconv.Quote(scope.Thread)})
	if code := host.CodeOf(err); code == host.AlreadyExists || code == host.ResourceExhausted {
		return nil
	}
	return err
}

// HandleJob summarizes what has become old in a thread.
func (p *Progressive) HandleJob(ctx context.Context, job *host.Job) error {
	scope := job.Scope
	for range maxStages {
		loaded, err := p.history.Get(ctx, &host.HistoryRequest{Tenant: scope.Tenant, Thread: scope.Thread})
		if err != nil {
			return err
		}
		known, err := p.own.Summaries.Load(ctx, scope)
		if err != nil {
			return err
		}
		_, rest := takeSystem(loaded.Messages)
		summary, rest := latest(known, rest)
		cut := p.own.cut(rest)
		if cut > 0 {
			cut = p.own.bounded(rest, cut)
		}
		if cut == 0 {
			return nil
		}
		next, err := p.own.summary(ctx, scope, summary, rest[:cut])
		if err != nil {
			return err
		}
		if same, err := p.unchanged(ctx, scope, rest[:cut]); err != nil {
			return err
		} else if !same {
			continue // something of it was edited or deleted while the model was at work
		}
		if err := p.own.Summaries.Save(ctx, scope, next); err != nil {
			return err
		}
	}
	return nil
}

// unchanged reports whether a thread still has these messages, one after the other.
func (p *Progressive) unchanged(ctx context.Context, scope host.Scope, messages []*host.Message) (bool, error) {
	loaded, err := p.history.Get(ctx, &host.HistoryRequest{Tenant: scope.Tenant, Thread: scope.Thread})
	if err != nil {
		return false, err
	}
	_, now := takeSystem(loaded.Messages)
	at := slices.IndexFunc(now, func(m *host.Message) bool { return m.ID == messages[0].ID })
	if at < 0 || len(now)-at < len(messages) {
		return false, nil
	}
	return slices.EqualFunc(now[at:at+len(messages)], messages, func(a, b *host.Message) bool { return a.ID == b.ID }), nil
}
