package host

import "time"

// The defaults of [Limits].
const (
	DefaultMaxIterations    = 50
	DefaultMaxRounds        = 50
	DefaultMaxToolCalls     = 1000
	DefaultMaxToolFailures  = 5
	DefaultParallelTools    = 16
	DefaultInputBytes       = 1 << 20
	DefaultArgumentBytes    = 1 << 20
	DefaultResultBytes      = 1 << 20
	DefaultStateBytes       = 256 << 10
	DefaultRunTokens        = 1_000_000
	DefaultRunInstructions  = 100_000_000_000
	DefaultRunTimeout       = 10 * time.Minute
	DefaultToolTimeout      = time.Minute
	DefaultEventBytes       = 64 << 10
	DefaultResponseBytes    = 4 << 20
	DefaultArtifactBytes    = 1 << 20
	DefaultRunArtifacts     = 1000
	DefaultRunArtifactBytes = 64 << 20
	DefaultEventsPerCall    = 1000
	DefaultHistoryTimeout   = 15 * time.Second
	DefaultCommitTimeout    = 15 * time.Second
	maxScheduledAgents      = 64
	maxToolCallsPerAnswer   = 128
)

// Limits bounds a run. A zero field is its default; there is no way to say
// "unlimited". An agent that reaches MaxRounds or MaxConsecutiveToolFailures ends
// as its [OnMaxRounds] says, by default with an answer. Breaking another one ends
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

func (l Limits) withDefaults() Limits {
	fill := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	fill(&l.MaxIterations, DefaultMaxIterations)
	fill(&l.MaxRounds, DefaultMaxRounds)
	fill(&l.MaxToolCalls, DefaultMaxToolCalls)
	fill(&l.MaxConsecutiveToolFailures, DefaultMaxToolFailures)
	fill(&l.ParallelTools, DefaultParallelTools)
	fill(&l.InputBytes, DefaultInputBytes)
	fill(&l.ArgumentBytes, DefaultArgumentBytes)
	fill(&l.ResponseBytes, DefaultResponseBytes)
	fill(&l.ResultBytes, DefaultResultBytes)
	fill(&l.ArtifactBytes, DefaultArtifactBytes)
	fill(&l.RunArtifacts, DefaultRunArtifacts)
	fill(&l.RunArtifactBytes, DefaultRunArtifactBytes)
	fill(&l.EventBytes, DefaultEventBytes)
	fill(&l.EventsPerCall, DefaultEventsPerCall)
	fill(&l.StateBytes, DefaultStateBytes)
	fill(&l.RunTokens, DefaultRunTokens)
	if l.RunInstructions == 0 {
		l.RunInstructions = DefaultRunInstructions
	}
	if l.RunTimeout == 0 {
		l.RunTimeout = DefaultRunTimeout
	}
	if l.ToolTimeout == 0 {
		l.ToolTimeout = DefaultToolTimeout
	}
	if l.HistoryTimeout == 0 {
		l.HistoryTimeout = DefaultHistoryTimeout
	}
	if l.CommitTimeout == 0 {
		l.CommitTimeout = DefaultCommitTimeout
	}
	return l
}

func (l Limits) check() error {
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
			return Errorf(InvalidArgument, "limit %s is %d", f.name, f.v).WithHint("leave it out for the default")
		}
	}
	return nil
}
