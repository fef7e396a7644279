package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/pdk/go/pdk"
	"github.com/agenthost/agenthost/plugins/tokenlimiter"
	"github.com/agenthost/agenthost/plugins/toolcallfilter"
)

// function is a processor that runs as a Go function. An applier keeps memory for its
// next call, so each call has an applier of its own from the pool.
type function struct {
	name     string
	pool     sync.Pool // of applier
	encoding func(view *host.View) string
}

// applier is a plugin's own work, outside a sandbox.
type applier func(o *pdk.Outline, e *pdk.Edits) (report pdk.Raw, err error)

var _ host.Processor = (*function)(nil)

// native returns the processor of a configuration that was checked.
func native(name string, config pdk.Raw) (host.Processor, error) {
	newApplier, encoding := newFilter, func(*host.View) string { return "" }
	if name == tokenlimiter.Name {
		newApplier, encoding = newLimiter, encodingOf(config)
	}
	first, err := newApplier(config)
	if err != nil {
		return nil, err
	}
	f := &function{name: name, encoding: encoding}
	f.pool.New = func() any {
		next, err := newApplier(config)
		if err != nil { // the same configuration has made an applier before
			return applier(func(*pdk.Outline, *pdk.Edits) (pdk.Raw, error) { return "", err })
		}
		return next
	}
	f.pool.Put(first)
	return f, nil
}

func newFilter(config pdk.Raw) (applier, error) {
	filter, err := toolcallfilter.New(config)
	if err != nil {
		return nil, err
	}
	return func(o *pdk.Outline, e *pdk.Edits) (pdk.Raw, error) { return filter.Apply(o, e).JSON(), nil }, nil
}

func newLimiter(config pdk.Raw) (applier, error) {
	limiter, err := tokenlimiter.New(config)
	if err != nil {
		return nil, err
	}
	return func(o *pdk.Outline, e *pdk.Edits) (pdk.Raw, error) {
		report, err := limiter.Apply(o, e)
		return report.JSON(), err
	}, nil
}

// encodingOf returns the tokenizer or encoding that a limiter's messages are counted
// in; "" if the limiter estimates instead of counting.
func encodingOf(config pdk.Raw) func(view *host.View) string {
	encoding, ok := config.Get("tokenizer").Str()
	if !ok || encoding == "" {
		encoding, _ = config.Get("encoding").Str()
	}
	return func(view *host.View) string {
		own, exact := view.Encoding()
		switch {
		case own == "" || encoding == "model" && !exact:
			return ""
		case encoding == "model":
			return own
		case encoding == "":
			return defaultEncoding
		}
		return encoding
	}
}

// defaultEncoding is the limiter's own default.
const defaultEncoding = "o200k_base"

func (f *function) Name() string { return f.name }

// ReadsOnly implements [llm.Reader].
func (f *function) ReadsOnly() {}

func (f *function) Process(ctx context.Context, view *host.View) (*llm.Processed, error) {
	outline, err := outlineOf(ctx, view, f.encoding(view))
	if err != nil {
		return nil, err
	}
	apply := f.pool.Get().(applier)
	defer f.pool.Put(apply)
	var edits pdk.Edits
	report, err := apply(outline, &edits)
	if err != nil {
		return nil, hostError(err)
	}
	done := &llm.Processed{Report: json.RawMessage(report)}
	if done.Edits, err = hostEdits(edits.List()); err != nil {
		return nil, err
	}
	return done, nil
}

// outlineOf returns a plugin's outline of a view.
func outlineOf(ctx context.Context, view *host.View, encoding string) (*pdk.Outline, error) {
	n := len(view.Messages)
	o := &pdk.Outline{Bytes: make([]int, n), Chars: make([]int, n), Parts: make([]int, n), Own: view.Own}
	roles := make([]byte, n)
	for i, m := range view.Messages {
		roles[i] = roleLetter(m.Role)
		o.Bytes[i], o.Chars[i] = m.Size()
		o.Parts[i] = len(m.Parts)
		for j, part := range m.Parts {
			switch part := part.(type) {
			case *host.ToolCall:
				o.Tools = append(o.Tools, pdk.OutlineTool{Message: i, Part: j, ID: part.ID, Name: part.Name})
			case *host.ToolResult:
				o.Tools = append(o.Tools, pdk.OutlineTool{Message: i, Part: j, Result: true, ID: part.ID, Name: part.Name})
			}
		}
	}
	o.Roles = string(roles)
	if i := slices.IndexFunc(view.Messages, func(m *host.Message) bool { return m.ID == view.Input }); i >= 0 && view.Input != "" {
		o.Keep = []int{i}
	}
	if encoding == "" {
		return o, nil
	}
	var err error
	o.Encoding = encoding
	o.Tokens, err = view.Tokens(ctx, encoding)
	return o, err
}

func roleLetter(r host.Role) byte {
	switch r {
	case host.System:
		return pdk.RoleLetterSystem
	case host.User:
		return pdk.RoleLetterUser
	case host.Assistant:
		return pdk.RoleLetterAssistant
	}
	return pdk.RoleLetterTool
}

// hostEdits returns a plugin's edits as the host's.
func hostEdits(list []pdk.Edit) ([]chat.Edit, error) {
	edits := make([]chat.Edit, len(list))
	for i, e := range list {
		switch e.Kind {
		case pdk.EditDrop:
			edits[i] = chat.Drop{From: e.At, To: e.To}
		case pdk.EditDropPart:
			edits[i] = chat.DropPart{Message: e.At, Part: e.Part}
		default:
			m := &host.Message{}
			if err := json.Unmarshal([]byte(e.Message.Raw()), m); err != nil {
				return nil, host.Errorf(host.Internal, "message of edit %d: %w", i, err)
			}
			if e.Kind == pdk.EditReplace {
				edits[i] = chat.Replace{At: e.At, Message: m}
			} else {
				edits[i] = chat.Insert{At: e.At, Message: m}
			}
		}
	}
	return edits, nil
}

// hostError returns a plugin's error as the host's.
func hostError(err error) error {
	var fault *pdk.Error
	if !errors.As(err, &fault) {
		return err
	}
	e := host.Errorf(host.Code(fault.Code), "%s", fault.Message).WithHint("%s", fault.Hint)
	e.Retryable = fault.Retryable
	return e
}
