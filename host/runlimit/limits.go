package runlimit

import (
	"cmp"
	"time"

	"github.com/agenthost/agenthost/host/fault"
)

// Limits bounds a run. A zero field is its default; there is no way to say
// "unlimited". An agent that reaches MaxRounds or MaxConsecutiveToolFailures ends
// as its host.OnMaxRounds says, by default with an answer. Breaking another one ends
// the run, or the call, with an error of code resource_exhausted (deadline_exceeded
// for times) that names the limit.
type Limits struct {
	MaxIterations int // agent runs of one network run (50)
	MaxRounds     int // model calls of one agent run, but for one without tools at their end (50)
	MaxToolCalls  int // tool calls of one run (1,000)
	ParallelTools int // tool calls at one time in one run (16)
	// MaxConsecutiveToolFailures is how many answers in a row may have tool calls that
	// all fail. Then the agent's run ends as at MaxRounds (5).
	MaxConsecutiveToolFailures int

	InputBytes       int           // the user's input (1 MiB)
	ArgumentBytes    int           // arguments of one tool call (1 MiB)
	ResponseBytes    int           // one answer of a model (4 MiB)
	ResultBytes      int           // content of one tool result (1 MiB)
	ArtifactBytes    int           // one artifact (1 MiB)
	RunArtifacts     int           // artifacts that the tools of one run make, also those that replace others (1,000)
	RunArtifactBytes int           // of them together (64 MiB)
	EventBytes       int           // one event that a tool emits (64 KiB)
	EventsPerCall    int           // events that one tool call emits (1,000)
	StateBytes       int           // custom state as JSON (256 KiB)
	RunTokens        int           // input and output tokens of all model calls of a run (1,000,000)
	RunInstructions  int64         // WebAssembly instructions of all plugins in a run, looked at between calls (100,000,000,000)
	RunTimeout       time.Duration // one run (10 min)
	ToolTimeout      time.Duration // one tool call (1 min)
	HistoryTimeout   time.Duration // one call of a history adapter before the model is asked (15 s)
	CommitTimeout    time.Duration // storing a run's results, after a cancel too (15 s)
}

// Default returns the limits of a host whose options name none.
func Default() Limits {
	return Limits{
		MaxIterations:              50,
		MaxRounds:                  50,
		MaxToolCalls:               1000,
		ParallelTools:              16,
		MaxConsecutiveToolFailures: 5,
		InputBytes:                 1 << 20,
		ArgumentBytes:              1 << 20,
		ResponseBytes:              4 << 20,
		ResultBytes:                1 << 20,
		ArtifactBytes:              1 << 20,
		RunArtifacts:               1000,
		RunArtifactBytes:           64 << 20,
		EventBytes:                 64 << 10,
		EventsPerCall:              1000,
		StateBytes:                 256 << 10,
		RunTokens:                  1_000_000,
		RunInstructions:            100_000_000_000,
		RunTimeout:                 10 * time.Minute,
		ToolTimeout:                time.Minute,
		HistoryTimeout:             15 * time.Second,
		CommitTimeout:              15 * time.Second,
	}
}

// WithDefaults returns the limits with the default of each zero field.
func (l Limits) WithDefaults() Limits {
	d := Default()
	return Limits{
		MaxIterations:              cmp.Or(l.MaxIterations, d.MaxIterations),
		MaxRounds:                  cmp.Or(l.MaxRounds, d.MaxRounds),
		MaxToolCalls:               cmp.Or(l.MaxToolCalls, d.MaxToolCalls),
		ParallelTools:              cmp.Or(l.ParallelTools, d.ParallelTools),
		MaxConsecutiveToolFailures: cmp.Or(l.MaxConsecutiveToolFailures, d.MaxConsecutiveToolFailures),
		InputBytes:                 cmp.Or(l.InputBytes, d.InputBytes),
		ArgumentBytes:              cmp.Or(l.ArgumentBytes, d.ArgumentBytes),
		ResponseBytes:              cmp.Or(l.ResponseBytes, d.ResponseBytes),
		ResultBytes:                cmp.Or(l.ResultBytes, d.ResultBytes),
		ArtifactBytes:              cmp.Or(l.ArtifactBytes, d.ArtifactBytes),
		RunArtifacts:               cmp.Or(l.RunArtifacts, d.RunArtifacts),
		RunArtifactBytes:           cmp.Or(l.RunArtifactBytes, d.RunArtifactBytes),
		EventBytes:                 cmp.Or(l.EventBytes, d.EventBytes),
		EventsPerCall:              cmp.Or(l.EventsPerCall, d.EventsPerCall),
		StateBytes:                 cmp.Or(l.StateBytes, d.StateBytes),
		RunTokens:                  cmp.Or(l.RunTokens, d.RunTokens),
		RunInstructions:            cmp.Or(l.RunInstructions, d.RunInstructions),
		RunTimeout:                 cmp.Or(l.RunTimeout, d.RunTimeout),
		ToolTimeout:                cmp.Or(l.ToolTimeout, d.ToolTimeout),
		HistoryTimeout:             cmp.Or(l.HistoryTimeout, d.HistoryTimeout),
		CommitTimeout:              cmp.Or(l.CommitTimeout, d.CommitTimeout),
	}
}

// Within returns the smaller of each limit of l and of the host's; a zero field of l is
// the host's.
func (l Limits) Within(of *Limits) *Limits {
	return &Limits{
		MaxIterations:              tighter(l.MaxIterations, of.MaxIterations),
		MaxRounds:                  tighter(l.MaxRounds, of.MaxRounds),
		MaxToolCalls:               tighter(l.MaxToolCalls, of.MaxToolCalls),
		ParallelTools:              tighter(l.ParallelTools, of.ParallelTools),
		MaxConsecutiveToolFailures: tighter(l.MaxConsecutiveToolFailures, of.MaxConsecutiveToolFailures),
		InputBytes:                 tighter(l.InputBytes, of.InputBytes),
		ArgumentBytes:              tighter(l.ArgumentBytes, of.ArgumentBytes),
		ResponseBytes:              tighter(l.ResponseBytes, of.ResponseBytes),
		ResultBytes:                tighter(l.ResultBytes, of.ResultBytes),
		ArtifactBytes:              tighter(l.ArtifactBytes, of.ArtifactBytes),
		RunArtifacts:               tighter(l.RunArtifacts, of.RunArtifacts),
		RunArtifactBytes:           tighter(l.RunArtifactBytes, of.RunArtifactBytes),
		EventBytes:                 tighter(l.EventBytes, of.EventBytes),
		EventsPerCall:              tighter(l.EventsPerCall, of.EventsPerCall),
		StateBytes:                 tighter(l.StateBytes, of.StateBytes),
		RunTokens:                  tighter(l.RunTokens, of.RunTokens),
		RunInstructions:            tighter(l.RunInstructions, of.RunInstructions),
		RunTimeout:                 tighter(l.RunTimeout, of.RunTimeout),
		ToolTimeout:                tighter(l.ToolTimeout, of.ToolTimeout),
		HistoryTimeout:             tighter(l.HistoryTimeout, of.HistoryTimeout),
		CommitTimeout:              tighter(l.CommitTimeout, of.CommitTimeout),
	}
}

// tighter returns the smaller of two limits; a zero or negative one is no limit of its own.
func tighter[N ~int | ~int64](own, of N) N {
	if own <= 0 {
		return of
	}
	return min(own, of)
}

// Check returns an error of code invalid_argument for a negative limit.
func (l Limits) Check() error {
	for _, f := range []struct {
		name string
		v    int64
	}{
		{"MaxIterations", int64(l.MaxIterations)}, {"MaxRounds", int64(l.MaxRounds)},
		{"MaxConsecutiveToolFailures", int64(l.MaxConsecutiveToolFailures)}, {"MaxToolCalls", int64(l.MaxToolCalls)}, {"ParallelTools", int64(l.ParallelTools)},
		{"InputBytes", int64(l.InputBytes)}, {"ArgumentBytes", int64(l.ArgumentBytes)},
		{"ResponseBytes", int64(l.ResponseBytes)}, {"ResultBytes", int64(l.ResultBytes)},
		{"ArtifactBytes", int64(l.ArtifactBytes)}, {"RunArtifacts", int64(l.RunArtifacts)}, {"RunArtifactBytes", int64(l.RunArtifactBytes)}, {"EventBytes", int64(l.EventBytes)},
		{"EventsPerCall", int64(l.EventsPerCall)}, {"StateBytes", int64(l.StateBytes)},
		{"RunTokens", int64(l.RunTokens)}, {"RunInstructions", l.RunInstructions}, {"RunTimeout", int64(l.RunTimeout)},
		{"ToolTimeout", int64(l.ToolTimeout)}, {"HistoryTimeout", int64(l.HistoryTimeout)}, {"CommitTimeout", int64(l.CommitTimeout)},
	} {
		if f.v < 0 {
			return fault.Errorf(fault.InvalidArgument, "limit %s is %d", f.name, f.v).WithHint("leave it out for the default")
		}
	}
	return nil
}
