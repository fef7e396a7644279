package metrics

import (
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
)

// The bounds of a collector.
const (
	maxSeries = 2_000   // of one metric
	maxRuns   = 100_000 // in progress
)

// unknownTool stands for the names of tools that models have invented. No tool has it.
const unknownTool = "(unknown)"

// Options are the optional parts of a collector.
type Options struct {
	// Plugins is the runtime of plugins to measure, a *plugin.Runtime; nil is none.
	Plugins Plugins
}

// Collector sums the events of runs. It is a host's Meter; any number of hosts may
// have the same. It is safe for concurrent use.
type Collector struct {
	plugins Plugins // nil is none

	mu       sync.Mutex
	progress map[string]map[string]*call // by run, and by the agent that asks; "" for its router

	runs, tokens, modelTokens, requests               *counter
	modelCalls, retries, fallbacks, throttled         *counter
	tools, toolRetries, processors, questions         *counter
	runSeconds, firstToken, modelSeconds, toolSeconds *histogram
	requestSeconds                                    *histogram
}

// call is a model's answer in progress.
type call struct {
	model string
	since time.Time
	began bool // the first delta has come
}

var _ host.Meter = (*Collector)(nil)

// New returns a collector without samples. opts may be nil.
func New(opts *Options) *Collector {
	if opts == nil {
		opts = &Options{}
	}
	return &Collector{
		plugins: opts.Plugins,

		progress: map[string]map[string]*call{},

		runs:         newCounter("runs_total", "Runs, by how they ended.", "tenant", "network", "reason", "code"),
		tokens:       newCounter("tokens_total", "Tokens of models.", "tenant", "network", "kind"),
		modelTokens:  newCounter("model_tokens_total", "Tokens of answers that were complete.", "model", "kind"),
		requests:     newCounter("http_requests_total", "Requests to the host, by the pattern of their path.", "route", "method", "status"),
		questions:    newCounter("questions_total", "Questions to people.", "tenant", "network", "kind"),
		modelCalls:   newCounter("model_calls_total", "Questions to models.", "model"),
		retries:      newCounter("model_retries_total", "Times that a model was asked again.", "model", "code"),
		fallbacks:    newCounter("model_fallbacks_total", "Times that another model was asked.", "from", "to", "code"),
		throttled:    newCounter("model_throttled_seconds_total", "Time that tenants waited for their turn at a model.", "model"),
		tools:        newCounter("tool_calls_total", "Tool calls, by how they ended.", "tool", "outcome"),
		toolRetries:  newCounter("tool_retries_total", "Attempts of tools that failed and were followed by another.", "tool", "code"),
		processors:   newCounter("processor_runs_total", "Runs of history processors, by how they ended.", "processor", "outcome"),
		runSeconds:   newHistogram("run_seconds", "Time of runs.", "tenant", "network"),
		firstToken:   newHistogram("model_first_token_seconds", "Time until something of a model's answer came.", "model"),
		modelSeconds: newHistogram("model_seconds", "Time until a model's answer was complete.", "model"),
		toolSeconds:  newHistogram("tool_seconds", "Time of tool calls.", "tool"),

		requestSeconds: newHistogram("http_request_seconds", "Time of requests to the host, to the end of their answers.", "route", "method"),
	}
}

// Measure implements [host.Meter].
func (c *Collector) Measure(scope host.Scope, ev host.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch d := ev.Data.(type) {
	case *runevent.TextDelta, *runevent.ReasoningDelta, *llm.ToolCallDelta:
		c.delta(scope, ev.Time)
	case *runevent.RunStarted:
		c.start(scope.Run)
	case *runevent.RunFinished:
		c.finish(scope, d)
	case *runevent.Interrupted:
		c.questions.add(1, scope.Tenant, scope.Network, string(d.Question.Kind))
	case *runevent.ModelCalled:
		c.modelCalls.add(1, d.Model)
		if asked := c.progress[scope.Run]; asked != nil {
			asked[scope.Agent] = &call{model: d.Model, since: ev.Time}
		}
	case *runevent.ModelRetried:
		c.retries.add(1, c.model(scope), string(d.Code))
	case *runevent.ModelFellBack:
		c.fallbacks.add(1, d.From, d.To, string(d.Code))
		if a := c.progress[scope.Run][scope.Agent]; a != nil {
			a.model, a.since = d.To, ev.Time
		}
	case *runevent.ModelThrottled:
		c.throttled.add(float64(d.WaitUS)/1e6, d.Model)
	case *runevent.MessageDone:
		c.answered(scope, ev.Time, d)
	case *runevent.ToolFinished:
		name := d.Name
		if d.Unknown {
			name = unknownTool
		}
		c.tools.add(1, name, outcome(d.IsError, false))
		c.toolSeconds.add(float64(d.DurationUS)/1e6, name)
	case *runevent.ToolRetried:
		c.toolRetries.add(1, d.Name, string(d.Code))
	case *runevent.ProcessorRan:
		c.processors.add(1, d.Processor, outcome(d.Error != nil, d.Skipped != nil))
	}
}

func outcome(failed, skipped bool) string {
	switch {
	case failed:
		return "error"
	case skipped:
		return "skipped"
	}
	return "ok"
}

func (c *Collector) start(run string) {
	if len(c.progress) >= maxRuns { // the ends of some were lost
		clear(c.progress)
	}
	c.progress[run] = map[string]*call{}
}

func (c *Collector) finish(scope host.Scope, d *runevent.RunFinished) {
	code := ""
	if d.Error != nil {
		code = string(d.Error.Code)
	}
	c.runs.add(1, scope.Tenant, scope.Network, string(d.FinishReason), code)
	c.runSeconds.add(float64(d.DurationUS)/1e6, scope.Tenant, scope.Network)
	eachKind(d.Usage, func(kind string, n float64) { c.tokens.add(n, scope.Tenant, scope.Network, kind) })
	delete(c.progress, scope.Run)
}

// eachKind calls fn with the tokens of each kind that there are.
func eachKind(u host.Usage, fn func(kind string, n float64)) {
	for _, t := range []struct {
		kind string
		n    int
	}{{"input", u.InputTokens}, {"output", u.OutputTokens}, {"cached", u.CachedTokens}, {"reasoning", u.ReasoningTokens}} {
		if t.n > 0 {
			fn(t.kind, float64(t.n))
		}
	}
}

// model returns the name of the model that is being asked.
func (c *Collector) model(scope host.Scope) string {
	if a := c.progress[scope.Run][scope.Agent]; a != nil {
		return a.model
	}
	return ""
}

func (c *Collector) delta(scope host.Scope, now time.Time) {
	a := c.progress[scope.Run][scope.Agent]
	if a != nil && !a.began {
		a.began = true
		c.firstToken.add(now.Sub(a.since).Seconds(), a.model)
	}
}

func (c *Collector) answered(scope host.Scope, now time.Time, d *runevent.MessageDone) {
	asked := c.progress[scope.Run]
	if a := asked[scope.Agent]; a != nil && d.Message.Role == host.Assistant {
		c.modelSeconds.add(now.Sub(a.since).Seconds(), a.model)
		if d.Usage != nil {
			eachKind(*d.Usage, func(kind string, n float64) { c.modelTokens.add(n, a.model, kind) })
		}
		delete(asked, scope.Agent)
	}
}
