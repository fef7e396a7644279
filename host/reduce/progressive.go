package reduce

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	"github.com/agenthost/agenthost/host"
)

// ProgressiveJob is the name of the jobs that a [Progressive] leaves.
const ProgressiveJob = "agenthost/summarize"

// DefaultBatch is the default of ProgressiveOptions.Batch.
const DefaultBatch = 50

// stagesOfJob is how many summaries one job makes; another job makes the next ones.
const stagesOfJob = 10

// stageMessages is how many messages of a long thread are read at once, beside
// those that are left.
const stageMessages = 1000

// Pager is an optional interface of a history: it reads a thread from any
// message on.
type Pager interface {
	// MessagesAfter returns messages of a thread in order, at most limit, that come
	// after the one of an id, and whether there are more; from the thread's beginning,
	// and found is false, if it does not have that one. An unknown thread is empty.
	MessagesAfter(ctx context.Context, req *host.HistoryRequest, message string, limit int) (messages []*host.Message, found, more bool, err error)
}

// ProgressiveOptions are the optional parts of [NewProgressive].
type ProgressiveOptions struct {
	Batch      int       // how many messages beyond the target make it worth a summary (50)
	Prompt     string    // default: DefaultPrompt
	ToolPairs  ToolPairs // default: KeepToolPairs
	InputBytes int       // default: DefaultSummaryInputBytes
}

// Progressive is a reducer for long threads that delays no run: a view is the newest
// stored summary and the messages after it, without a model call. When more than the
// target and a batch came after the summary, Progressive enqueues a job for after
// the turn. The job gives the model its summary and the messages that have become
// old since, and stores the next summary with its last message. So each message is
// summarized once, however long the thread gets, also in a thread that was imported
// or had no summaries for long: jobs go through it from its beginning, a part at a
// time. Until the summary has come near the thread's end, and while jobs fail, a
// view is longer: put a reducer that drops behind Progressive if views must stay
// short.
type Progressive struct {
	own     *summarizing
	batch   int
	history host.HistoryLoader
	pager   Pager // nil if the history is none
	jobs    host.Enqueuer
}

var _ Reducer = (*Progressive)(nil)

// NewProgressive returns a progressive reducer that leaves about target messages
// beside the summary. Jobs read the thread from history. A [Pager], as threads.Store
// is, is read from the end of the summary; the window of another loader must contain
// the last summarized message, and messages before the first window are in no
// summary. Summaries are stored in summaries. The queue of jobs must call HandleJob
// for jobs named [ProgressiveJob]. Code invalid_argument for a target below 1, a
// negative batch, and a missing argument.
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
	p.pager, _ = history.(Pager)
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

// ReadsOnly implements [llm.Reader].
func (*Progressive) ReadsOnly() {}

// Reduce implements [Reducer]. A job that cannot be enqueued is an error,
// unless it is queued already or the queue is full.
func (p *Progressive) Reduce(ctx context.Context, view *host.View) ([]*host.Message, error) {
	if err := checkView(view); err != nil {
		return nil, err
	}
	past, turn := history(view)
	system, rest := takeSystem(past)
	known, err := p.own.Summaries.Load(ctx, view.Scope)
	if err != nil {
		return nil, err
	}
	summary, rest := latest(known, rest)
	if p.own.cut(rest) > 0 && view.Scope.Thread != "" {
		if err := p.leave(ctx, view.Scope, stageOf(known, summary, rest, p.batch)); err != nil {
			return nil, err
		}
	}
	out := system
	if summary != nil {
		out = append(out, summary.message())
	}
	return append(append(out, rest...), turn...), nil
}

// stageOf names the progress of a thread's summaries: the last message of the newest
// summary, and the number of batches after it. If that summary is out of the window,
// the number is unknown: then about one message of each batch marks the stage.
func stageOf(known, summary *Summary, rest []*host.Message, batch int) string {
	through, mark := "", ""
	if known != nil {
		through = known.Through
	}
	for i := len(rest) - 1; summary == nil && mark == "" && i >= 0; i-- {
		h := fnv.New32a()
		_, _ = h.Write([]byte(rest[i].ID))
		if h.Sum32()%uint32(batch) == 0 {
			mark = rest[i].ID
		}
	}
	return fmt.Sprintf("%.128s/%d/%.128s", through, len(rest)/batch, mark)
}

// leave leaves one job for each stage of a thread.
func (p *Progressive) leave(ctx context.Context, scope host.Scope, stage string) error {
	raw, err := json.Marshal(scope)
	if err != nil {
		return err
	}
	_, err = p.jobs.Enqueue(ctx, &host.Job{Name: ProgressiveJob, Payload: raw, Scope: scope,
		Key: fmt.Sprintf("%.128s/%s", scope.Thread, stage), Serial: ProgressiveJob + "/" + strconv.Quote(scope.Thread)})
	if code := host.CodeOf(err); code == host.AlreadyExists || code == host.ResourceExhausted {
		return nil
	}
	return err
}

// HandleJob summarizes the messages that have become old in a thread, and
// enqueues another job if many remain.
func (p *Progressive) HandleJob(ctx context.Context, job *host.Job) error {
	through := ""
	for range stagesOfJob {
		last, err := p.stage(ctx, job.Scope)
		if err != nil || last == "" {
			return err
		}
		through = last
	}
	return p.leave(ctx, job.Scope, fmt.Sprintf("%.128s/more", through))
}

// stage makes one summary, if there is something to, and returns the id of the last
// message that it was asked to cover.
func (p *Progressive) stage(ctx context.Context, scope host.Scope) (through string, err error) {
	known, err := p.own.Summaries.Load(ctx, scope)
	if err != nil {
		return "", err
	}
	summary, rest, more, err := p.unsummarized(ctx, scope, known)
	if err != nil {
		return "", err
	}
	cut := p.own.cut(rest)
	if cut == 0 && more {
		cut = wholeUpTo(rest, len(rest)-1) // they are few, but large
	}
	if cut > 0 {
		cut = p.own.bounded(rest, cut)
	}
	if cut == 0 {
		return "", nil
	}
	next, err := p.own.summary(ctx, scope, summary, rest[:cut])
	if err != nil {
		return "", err
	}
	same, err := p.unchanged(ctx, scope, known, rest[:cut])
	if err == nil && same { // or something of it was edited or deleted while the model was at work
		err = p.own.Summaries.Save(ctx, scope, next)
	}
	return next.Through, err
}

// wholeUpTo lowers a cut until it parts no call from its results.
func wholeUpTo(messages []*host.Message, cut int) int {
	for cut > 0 && aboutTools(messages[cut-1]) {
		cut--
	}
	return max(cut, 0)
}

// unsummarized reads a thread: the newest summary, and the messages after it, or
// the first of them.
func (p *Progressive) unsummarized(ctx context.Context, scope host.Scope, known *Summary) (summary *Summary, rest []*host.Message, more bool, err error) {
	req := &host.HistoryRequest{Tenant: scope.Tenant, Thread: scope.Thread}
	if p.pager == nil {
		loaded, err := p.history.Get(ctx, req)
		if err != nil {
			return nil, nil, false, err
		}
		_, rest = takeSystem(loaded.Messages)
		summary, rest = latest(known, rest)
		return summary, rest, false, nil
	}
	through := ""
	if known != nil {
		through = known.Through
	}
	messages, found, more, err := p.pager.MessagesAfter(ctx, req, through, stageMessages+p.own.target+p.batch)
	if err != nil {
		return nil, nil, false, err
	}
	_, rest = takeSystem(messages)
	if summary, rest = latest(nil, rest); summary == nil && found {
		summary = known
	}
	return summary, rest, more, nil
}

// unchanged reports whether a thread still has its summary, followed by these
// messages.
func (p *Progressive) unchanged(ctx context.Context, scope host.Scope, known *Summary, messages []*host.Message) (bool, error) {
	still, err := p.own.Summaries.Load(ctx, scope)
	if err != nil || (known == nil) != (still == nil) || known != nil && *known != *still {
		return false, err
	}
	_, now, _, err := p.unsummarized(ctx, scope, known)
	if err != nil || len(now) < len(messages) {
		return false, err
	}
	return slices.EqualFunc(now[:len(messages)], messages, func(a, b *host.Message) bool { return a.ID == b.ID }), nil
}
