package tokenlimiter

import "github.com/agenthost/agenthost/pdk/go/pdk"

// Name is the name of the plugin and of its processor.
const Name = "tokenlimiter"

const version = "1.0.0"

// Register adds the processor to a plugin.
func Register(p *pdk.Plugin) {
	p.Describe(pdk.Manifest{
		Name: Name, Version: version,
		Description: "Drops the oldest messages of what a model is sent until it fits a number of tokens.",
	})
	var (
		limiter    Limiter
		raw        pdk.Raw // what limiter.config was read from
		configured bool
	)
	limiter.reserve(reserved)
	spec := p.OutlineProcessor(Name, func(c *pdk.Process) error {
		if !configured || raw != c.Config {
			config, err := parseConfig(c.Config)
			if err != nil {
				return err
			}
			limiter.config, raw, configured = config, c.Config, true
		}
		report, err := limiter.Apply(c.Outline(), &c.Edits)
		if err != nil {
			return err
		}
		c.Report(report.JSON())
		return nil
	})
	spec.Config = schema
	spec.Tokens = pdk.Tokens{ConfigKey: "encoding"}
}

// A Limiter drops the oldest messages of conversations that have too many
// tokens. It reuses its memory from one conversation to the next and is not safe
// for concurrent use.
type Limiter struct {
	config   config
	counts   []int // estimated tokens, for each message
	segments segments
}

// reserved is how many messages, and calls and results, there is memory for before
// the first call of the module: that is cheaper than to allocate it in each call.
const reserved = 2048

func (l *Limiter) reserve(n int) {
	l.counts = make([]int, 0, n)
	s := &l.segments
	s.protected, s.joins = make([]bool, 0, n), make([]int, 0, n+1)
	s.single, s.open = make([]bool, 0, n), make([]int, 0, n)
}

// A Report says what a limiter did.
type Report struct {
	Limit   int
	Before  int // tokens
	After   int // tokens
	Dropped int // messages
	Info    Info
}

// New returns the limiter that a configuration describes, which the package
// documentation explains. Errors have code invalid_argument and say which key is
// wrong and how.
func New(config pdk.Raw) (*Limiter, error) {
	c, err := parseConfig(config)
	if err != nil {
		return nil, err
	}
	return &Limiter{config: c}, nil
}

// Apply adds to e what makes the conversation that o describes fit. It keeps
// nothing of either. The error, of code resource_exhausted, is that nothing fits.
func (l *Limiter) Apply(o *pdk.Outline, e *pdk.Edits) (Report, error) {
	tokens, info := l.count(o)
	total := sum(tokens)
	r := Report{Limit: l.config.limit, Before: total, After: total, Info: info}
	budget := l.config.limit - l.config.reserve
	if total <= budget {
		return r, nil
	}
	l.segments.find(o)
	from, err := l.firstKept(tokens, budget)
	if err != nil {
		return r, err
	}
	for m := range from {
		if !l.segments.protected[m] {
			e.Drop(m, m+1)
			r.After -= tokens[m]
			r.Dropped++
		}
	}
	return r, nil
}

// firstKept returns the first message that is kept, those that are protected
// aside: where the oldest segment begins that fits.
func (l *Limiter) firstKept(tokens []int, budget int) (int, error) {
	s := &l.segments
	system := s.protectedTokens(tokens)
	left, from, fits := budget-system, len(tokens), false
	for from > 0 {
		start, size := s.before(from, tokens)
		if s.protected[from-1] && start == from-1 {
			from = start
			continue
		}
		if size > left {
			break
		}
		from, left, fits = start, left-size, true
	}
	if fits || l.config.empty {
		return from, nil
	}
	if left <= 0 {
		return 0, l.systemTooLarge(system)
	}
	_, newest := s.before(from, tokens)
	return 0, l.newestTooLarge(newest, left)
}

func (l *Limiter) newestTooLarge(newest, left int) error {
	err := pdk.Errorf(pdk.ResourceExhausted,
		"the newest message, with the tool calls and results that belong to it, has %d tokens; "+
			"the limit of %d, less system messages and reserve, leaves %d for it", newest, l.config.limit, left)
	err.Hint = `raise limit, shorten the message or what the tool returns, or set oversize to "empty"`
	return err
}

func (l *Limiter) systemTooLarge(system int) error {
	err := pdk.Errorf(pdk.ResourceExhausted,
		"the system messages have %d tokens; the limit of %d, less the reserve of %d, leaves nothing for others",
		system, l.config.limit, l.config.reserve)
	err.Hint = "raise limit, or shorten the system messages"
	return err
}

func sum(list []int) int {
	total := 0
	for _, n := range list {
		total += n
	}
	return total
}

// JSON returns the report as the run shows it.
func (r *Report) JSON() pdk.Raw {
	var w pdk.Writer
	w.BeginObject().
		Key("limit").Int(int64(r.Limit)).
		Key("tokens_before").Int(int64(r.Before)).
		Key("tokens_after").Int(int64(r.After)).
		Key("dropped_messages").Int(int64(r.Dropped)).
		Key("encoding").Str(r.Info.Encoding).
		Key("approximate").Bool(r.Info.Type == TypeApproximate)
	w.Key("info").BeginObject().
		Key("encoding").Str(r.Info.Encoding).
		Key("type").Str(r.Info.Type).
		Key("hasTiktoken").Bool(r.Info.HasTiktoken).
		EndObject()
	w.EndObject()
	return w.Value()
}
