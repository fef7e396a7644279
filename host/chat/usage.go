package chat

// Usage counts tokens. Estimated says that a model did not report them and the
// host counted instead.
type Usage struct {
	InputTokens     int  `json:"input_tokens"`
	OutputTokens    int  `json:"output_tokens"`
	CachedTokens    int  `json:"cached_tokens,omitempty"`
	ReasoningTokens int  `json:"reasoning_tokens,omitempty"`
	Estimated       bool `json:"estimated,omitempty"`
}

// Total returns input and output tokens together.
func (u Usage) Total() int { return u.InputTokens + u.OutputTokens }

// Add returns the sum of two usages.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		InputTokens:     u.InputTokens + v.InputTokens,
		OutputTokens:    u.OutputTokens + v.OutputTokens,
		CachedTokens:    u.CachedTokens + v.CachedTokens,
		ReasoningTokens: u.ReasoningTokens + v.ReasoningTokens,
		Estimated:       u.Estimated || v.Estimated,
	}
}

// maxTokens bounds the tokens that one answer reports: sums of more would
// overflow.
const maxTokens = 1 << 30

// Bounded returns u with each count between 0 and 2^30. A negative count of a server
// would refund its tenant the cost of other calls.
func (u Usage) Bounded() Usage {
	for _, n := range []*int{&u.InputTokens, &u.OutputTokens, &u.CachedTokens, &u.ReasoningTokens} {
		*n = min(max(*n, 0), maxTokens)
	}
	return u
}

// Cost is the usage of sandboxed code.
type Cost struct {
	Plugin       string `json:"plugin,omitempty"` // registration id
	Instructions int64  `json:"instructions"`
	DurationUS   int64  `json:"duration_us"` // wall time inside the sandbox
	PeakMemory   int64  `json:"peak_memory_bytes,omitempty"`
	HostCalls    int    `json:"host_calls,omitempty"`
	InputBytes   int    `json:"input_bytes,omitempty"`
	OutputBytes  int    `json:"output_bytes,omitempty"`
	WaitUS       int64  `json:"wait_us,omitempty"`      // until it began
	ThrottledUS  int64  `json:"throttled_us,omitempty"` // of DurationUS: while it was others' turn
}

// Add adds v to c; the peak is the larger of the two.
func (c *Cost) Add(v *Cost) {
	if v == nil {
		return
	}
	c.Instructions += v.Instructions
	c.DurationUS += v.DurationUS
	c.PeakMemory = max(c.PeakMemory, v.PeakMemory)
	c.HostCalls += v.HostCalls
	c.InputBytes += v.InputBytes
	c.OutputBytes += v.OutputBytes
	c.WaitUS += v.WaitUS
	c.ThrottledUS += v.ThrottledUS
}
