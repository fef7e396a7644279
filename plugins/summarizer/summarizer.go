package summarizer

import (
	"strings"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

// Name is the name of the plugin and of its processor.
const Name = "summarizer"

const version = "1.0.0"

// maxInputBytes bounds the counted text that is summarized at once, and maxShownChars
// the shown part of one call's arguments or result. Text beyond maxInputBytes waits
// for the next call.
const (
	maxInputBytes = 96 << 10
	maxShownBytes = 4 << 10
)

// Register adds the processor to a plugin.
func Register(p *pdk.Plugin) {
	p.Describe(pdk.Manifest{
		Name: Name, Version: version,
		Description: "Puts a model's summary in the place of old messages.",
		Permissions: pdk.Permissions{Model: true, KV: pdk.AccessWrite},
	})
	spec := p.OutlineProcessor(Name, process)
	spec.Config = schema
}

func process(c *pdk.Process) error {
	conf, err := parseConfig(c.Config)
	if err != nil {
		return err
	}
	v, err := look(c.Outline(), &conf)
	if err != nil || v == nil {
		return err
	}
	known, err := load(c.Scope.Thread)
	if err != nil {
		return err
	}
	return v.shorten(c, known)
}

// view is a conversation that is long enough to be looked at.
type view struct {
	conf *config
	o    *pdk.Outline
	past int // how many messages come before this turn
}

// look returns nil for a short conversation: then nothing else is read or asked.
func look(o *pdk.Outline, conf *config) (*view, error) {
	v := &view{conf: conf, o: o, past: o.Len()}
	for _, i := range o.Keep {
		v.past = min(v.past, i)
	}
	if v.talk(0) <= conf.target {
		return nil, nil
	}
	return v, nil
}

// talk counts the messages of the past from an index on that are no system's.
func (v *view) talk(from int) (n int) {
	for i := from; i < v.past; i++ {
		if v.o.Roles[i] != pdk.RoleLetterSystem {
			n++
		}
	}
	return n
}

// summary is the stored summary of the beginning of a thread.
type summary struct {
	text    string
	through string // id of the last message that it covers
	count   int    // of messages that it stands for, a guide to where that one is
}

// shorten puts the summary, a newer one if it is time for that, in the place of
// what it covers.
func (v *view) shorten(c *pdk.Process, known summary) error {
	from, err := v.after(known)
	if err != nil {
		return err
	}
	if from == 0 {
		known = summary{}
	}
	cut, asked := v.cut(from), false
	if cut > from {
		if known, err = v.summarize(c.Scope.Thread, known, from, cut); err != nil {
			return err
		}
		from, asked = cut, true
	}
	if from == 0 {
		return nil
	}
	m := pdk.NewMessage(pdk.RoleAssistant, pdk.TextPart(known.text))
	m.ID = Name + "/" + known.through // the same each time, for a provider's prompt cache
	at, dropped := -1, 0
	for i := range from {
		if v.o.Roles[i] == pdk.RoleLetterSystem {
			continue
		}
		if at < 0 {
			at = i
			c.Insert(at, m)
		}
		c.Drop(i, i+1)
		dropped++
	}
	report(c, known.through, dropped, asked)
	return nil
}

func report(c *pdk.Process, through string, dropped int, asked bool) {
	var w pdk.Writer
	w.BeginObject().Key("summarized").Int(int64(dropped)).Key("through").Str(through).Key("asked").Bool(asked).EndObject()
	c.Report(w.Value())
}

// after returns the index behind what a summary covers; 0 if it does not belong to
// the conversation. A conversation is read from where it should be outwards.
func (v *view) after(known summary) (int, error) {
	if known.through == "" {
		return 0, nil
	}
	const page = 64
	for hi := min(v.past, known.count+page); hi > 0; hi -= page {
		lo := max(0, hi-page)
		messages, err := pdk.MessagesGet(indices(lo, hi)...)
		if err != nil {
			return 0, err
		}
		for i := range messages {
			if messages[i].ID == known.through {
				return lo + i + 1, nil
			}
		}
	}
	return 0, nil
}

func indices(from, to int) []int {
	list := make([]int, 0, to-from)
	for i := from; i < to; i++ {
		list = append(list, i)
	}
	return list
}

// cut returns up to where to summarize what follows from: nowhere, if that is not
// more than the target and the threshold.
func (v *view) cut(from int) int {
	n := v.talk(from)
	if n <= v.conf.target+v.conf.threshold {
		return from
	}
	cut := v.past
	for left := 0; left < v.conf.target && cut > from; {
		if cut--; v.o.Roles[cut] != pdk.RoleLetterSystem {
			left++
		}
	}
	bytes := 0
	for i := from; i < cut; i++ {
		if bytes += v.o.Bytes[i]; bytes > maxInputBytes {
			cut = max(i, from+1)
		}
	}
	return v.whole(from, cut)
}

// whole moves a cut back to where it splits no call from its results, and to a
// user's message if there is one within the threshold.
func (v *view) whole(from, cut int) int {
	open := map[int]bool{} // cuts behind these messages split a call
	calls := map[string]int{}
	for _, t := range v.o.Tools {
		if !t.Result {
			calls[t.ID] = t.Message
			continue
		}
		for i, ok := calls[t.ID]; ok && i < t.Message; i++ {
			open[i] = true
		}
	}
	for cut > from && open[cut-1] {
		cut--
	}
	for i := cut; i > from && i >= cut-v.conf.threshold; i-- {
		if i < v.past && v.o.Roles[i] == pdk.RoleLetterUser && !open[i-1] {
			return i
		}
	}
	return cut
}

// summarize asks the model, and keeps what it answers.
func (v *view) summarize(thread string, known summary, from, cut int) (summary, error) {
	messages, err := pdk.MessagesGet(indices(from, cut)...)
	if err != nil {
		return summary{}, err
	}
	asked := make([]pdk.Message, 0, len(messages)+2)
	if known.text != "" {
		asked = append(asked, pdk.NewMessage(pdk.RoleAssistant, pdk.TextPart(known.text)))
	}
	for i := range messages {
		if text := shown(&messages[i]); text != "" && messages[i].Role != pdk.RoleSystem {
			asked = append(asked, pdk.NewMessage(roleOf(&messages[i]), pdk.TextPart(text)))
		}
	}
	asked = append(asked, pdk.NewMessage(pdk.RoleUser, pdk.TextPart(v.conf.prompt)))
	answer, err := pdk.Generate(pdk.Question{Messages: asked, Model: v.conf.model, MaxTokens: v.conf.maxTokens})
	if err != nil {
		return summary{}, err
	}
	s := summary{text: strings.Clone(answer.Message.Text()), through: strings.Clone(messages[len(messages)-1].ID), count: cut}
	return s, save(thread, s)
}

func roleOf(m *pdk.Message) string {
	if m.Role == pdk.RoleUser {
		return pdk.RoleUser
	}
	return pdk.RoleAssistant
}

// shown is what the model is shown of a message: it is not offered the tools that
// were called, so it reads of them as text.
func shown(m *pdk.Message) string {
	var lines []string
	for _, p := range m.Parts {
		switch p.Type {
		case pdk.PartText:
			lines = append(lines, p.Text)
		case pdk.PartToolCall:
			lines = append(lines, "[called "+p.Name+" with "+short(string(p.Arguments))+"]")
		case pdk.PartToolResult:
			lines = append(lines, "["+p.Name+" answered: "+short(string(p.Content))+"]")
		}
	}
	return strings.Join(lines, "\n")
}

func short(s string) string {
	if len(s) <= maxShownBytes {
		return s
	}
	return strings.ToValidUTF8(s[:maxShownBytes], "") + "..."
}

func key(thread string) string { return "summary/" + thread }

// load reads the summary of a thread. A plugin that may not keep anything has
// none.
func load(thread string) (summary, error) {
	if thread == "" {
		return summary{}, nil
	}
	item, err := pdk.KVGet(key(thread))
	switch pdk.CodeOf(err) {
	case pdk.NotFound, pdk.PermissionDenied, pdk.InvalidArgument: // the last: a thread's name that is no key
		return summary{}, nil
	}
	if err != nil {
		return summary{}, err
	}
	raw := pdk.Raw(item.Value)
	var s summary
	s.text, _ = raw.Get("text").Str()
	s.through, _ = raw.Get("through").Str()
	count, _ := raw.Get("count").Int()
	s.text, s.through, s.count = strings.Clone(s.text), strings.Clone(s.through), int(count)
	return s, nil
}

// save keeps the summary of a thread, if that is possible: without it, the next
// call asks again.
func save(thread string, s summary) error {
	if thread == "" {
		return nil
	}
	var w pdk.Writer
	w.BeginObject().Key("text").Str(s.text).Key("through").Str(s.through).Key("count").Int(int64(s.count)).EndObject()
	_, err := pdk.KVPut(key(thread), []byte(w.Value()), pdk.KVPutOptions{})
	switch pdk.CodeOf(err) {
	case pdk.PermissionDenied, pdk.InvalidArgument, pdk.ResourceExhausted:
		return nil
	}
	return err
}

// Check returns the first fault of a configuration, or nil.
func Check(config pdk.Raw) error {
	_, err := parseConfig(config)
	return err
}
