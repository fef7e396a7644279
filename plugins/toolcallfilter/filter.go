package toolcallfilter

import (
	"slices"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

// Name is the name of the plugin and of its processor.
const Name = "toolcallfilter"

const version = "1.0.0"

// Register adds the processor to a plugin.
func Register(p *pdk.Plugin) {
	p.Describe(pdk.Manifest{
		Name: Name, Version: version,
		Description: "Removes tool calls and their results from what a model is sent.",
	})
	var (
		filter     Filter
		raw        pdk.Raw // what filter.config was read from
		configured bool
	)
	filter.reserve(reserved)
	spec := p.OutlineProcessor(Name, func(c *pdk.Process) error {
		if !configured || raw != c.Config {
			config, err := parseConfig(c.Config)
			if err != nil {
				return err
			}
			filter.config, raw, configured = config, c.Config, true
		}
		c.Report(filter.Apply(c.Outline(), &c.Edits).JSON())
		return nil
	})
	spec.Config = schema
}

// A Filter removes tool calls and their results. It reuses its memory from one
// conversation to the next and is not safe for concurrent use.
type Filter struct {
	config config
	pairs  pairs
	gone   []bool // for each row of the outline: whether it goes
	room   room
	names  []string // of the tools whose calls a message loses
}

// reserved is how many messages, and calls and results, there is memory for before
// the first call of the module: that is cheaper than to allocate it in each call.
const reserved = 2048

func (f *Filter) reserve(n int) {
	f.pairs.call, f.pairs.movesOn, f.pairs.open = make([]int, 0, n), make([]bool, 0, n), make([]int, 0, n)
	f.gone = make([]bool, 0, n)
}

// A Report counts what a filter removed.
type Report struct {
	Calls     int
	Results   int
	Messages  int // that had nothing else
	Summaries int // messages that were added
}

// New returns the filter that a configuration describes, which the package
// documentation explains; "" is the empty one. Errors have code invalid_argument
// and say which key is wrong and how.
func New(config pdk.Raw) (*Filter, error) {
	c, err := parseConfig(config)
	if err != nil {
		return nil, err
	}
	return &Filter{config: c}, nil
}

// Apply adds to e what removes the filtered calls and results from the
// conversation that o describes. It keeps nothing of either.
func (f *Filter) Apply(o *pdk.Outline, e *pdk.Edits) Report {
	var r Report
	f.pairs.match(o)
	f.choose(o)
	if f.config.summaries {
		f.room.measure(o, &f.pairs, f.gone)
	}
	for row := 0; row < len(o.Tools); {
		end := endOfMessage(o.Tools, row)
		f.message(o, row, end, e, &r)
		row = end
	}
	return r
}

// message removes the filtered parts of the message whose tool rows are [from, to).
func (f *Filter) message(o *pdk.Outline, from, to int, e *pdk.Edits, r *Report) {
	at, removed, kept := o.Tools[from].Message, 0, 0
	f.names = f.names[:0]
	for row := from; row < to; row++ {
		t := &o.Tools[row]
		switch {
		case !f.gone[row]:
			if !t.Result {
				kept++
			}
			continue
		case t.Result:
			r.Results++
		default:
			r.Calls++
			if f.config.summaries {
				f.names = append(f.names, t.Name)
			}
		}
		removed++
	}
	if len(f.names) > 0 && (f.config.mode != keepListed || kept == 0) {
		e.Insert(f.room.after(at), pdk.NewMessage(pdk.RoleAssistant, pdk.TextPart(summary(f.names))))
		r.Summaries++
	}
	if removed == o.Parts[at] {
		e.Drop(at, at+1)
		r.Messages++
		return
	}
	for row := from; removed > 0; row++ {
		if f.gone[row] {
			e.DropPart(at, o.Tools[row].Part)
			removed--
		}
	}
}

// choose finds the calls and results that go: a result with its call, one without
// a call by the tool that it names.
func (f *Filter) choose(o *pdk.Outline) {
	own := o.Len() // the first message that is left alone
	if !f.config.ownToo {
		own -= o.Own
	}
	rows := o.Tools
	f.gone = slices.Grow(f.gone[:0], len(rows))[:len(rows)]
	for row, call := range f.pairs.call {
		if call == noCall {
			call = row
		}
		if call < row { // which was chosen already
			f.gone[row] = f.gone[call]
		} else {
			f.gone[row] = rows[call].Message < own && f.config.removes(rows[call].Name)
		}
	}
}

// endOfMessage returns the row after those of the message that row belongs to.
func endOfMessage(rows []pdk.OutlineTool, row int) int {
	message := rows[row].Message
	for row < len(rows) && rows[row].Message == message {
		row++
	}
	return row
}

// JSON returns the report as the run shows it.
func (r Report) JSON() pdk.Raw {
	var w pdk.Writer
	w.BeginObject().
		Key("removed_calls").Int(int64(r.Calls)).
		Key("removed_results").Int(int64(r.Results)).
		Key("removed_messages").Int(int64(r.Messages)).
		Key("summaries").Int(int64(r.Summaries)).
		EndObject()
	return w.Value()
}
