package abi

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
	"github.com/agenthost/agenthost/host/plugin/internal/guesttext"
)

// Answers reads the outputs of the exports of one plugin. An output that breaks the ABI is
// an error of code internal that names the plugin. A long output is read in pieces, with a
// [callmeter.Yield] between two of them.
type Answers struct{ Plugin string }

// Tool reads the answer of a tool, whose content fits a schema; nil is any content.
func (a Answers) Tool(ctx context.Context, raw []byte, result *host.Schema) (*host.ToolOutput, error) {
	var got toolOutput
	if err := a.decode(ctx, Tool, raw, &got); err != nil {
		return nil, err
	}
	artifacts, err := a.readArtifacts(ctx, got.Artifacts)
	if err != nil {
		return nil, err
	}
	media, err := a.readMedia(got.Media)
	if err != nil {
		return nil, err
	}
	if got.Interrupt == nil && result != nil {
		if err := a.CheckResult(ctx, result, OrNull(got.Content)); err != nil {
			return nil, err
		}
	}
	return &host.ToolOutput{Content: got.Content, State: got.State, Media: media, Artifacts: artifacts, Schedule: got.Schedule, Interrupt: got.Interrupt}, nil
}

// CheckResult holds a tool's content to the schema that its manifest gives, for as
// long as the call may take.
func (a Answers) CheckResult(ctx context.Context, result *host.Schema, content json.RawMessage) error {
	if err := result.ValidateContext(ctx, content); err != nil {
		return host.Errorf(host.Internal, "plugin %q: a result does not fit its schema: %w", a.Plugin, err)
	}
	return nil
}

// readArtifacts reads the artifacts of a tool's answer.
func (a Answers) readArtifacts(ctx context.Context, raw json.RawMessage) (list []host.Artifact, err error) {
	if !IsSet(raw) {
		return nil, nil
	}
	if err := a.decodable(Tool, "artifacts", raw); err != nil {
		return nil, err
	}
	if err := jsondoc.UnmarshalValid(raw, &list, func() error { return callmeter.Yield(ctx) }); err != nil {
		return nil, a.broken(Tool, fmt.Errorf("artifacts: %w", err))
	}
	return list, nil
}

// readMedia reads the media of a tool's answer.
func (a Answers) readMedia(raw json.RawMessage) (list []*chat.Media, err error) {
	if !IsSet(raw) {
		return nil, nil
	}
	if err := a.atMost(Tool, "media", jsondoc.CountElements(raw), maxAnswerMedia); err != nil {
		return nil, err
	}
	parts, err := chat.DecodeParts(raw)
	if err != nil {
		return nil, a.broken(Tool, fmt.Errorf("media: %w", err))
	}
	for _, p := range parts {
		m, ok := p.(*chat.Media)
		if !ok {
			return nil, a.broken(Tool, fmt.Errorf("media: a part of type %q", guesttext.Clean(p.Type())))
		}
		list = append(list, m)
	}
	return list, nil
}

// Process reads the answer of a processor.
func (a Answers) Process(ctx context.Context, name string, raw []byte) (*llm.Processed, error) {
	var got struct {
		Messages json.RawMessage `json:"messages"`
		Edits    json.RawMessage `json:"edits"`
		Report   json.RawMessage `json:"report"`
	}
	if err := a.decode(ctx, Process, raw, &got); err != nil {
		return nil, err
	}
	var err error
	done := &llm.Processed{Report: got.Report}
	if IsSet(got.Messages) {
		done.Messages, err = a.readMessages(ctx, Process, "processor", name, got.Messages)
		if done.Messages == nil {
			done.Messages = []*host.Message{}
		}
	}
	if IsSet(got.Messages) && IsSet(got.Edits) {
		return nil, host.Errorf(host.Internal, "plugin %q: processor %q returned both messages and edits", a.Plugin, name).
			WithHint("the plugin is broken; see pdk/ABI.md")
	}
	if err == nil && IsSet(got.Edits) {
		done.Edits, err = a.readEdits(ctx, name, got.Edits)
	}
	return done, err
}

// readMessages reads the messages of an answer of a part: a kind and a name.
func (a Answers) readMessages(ctx context.Context, e Export, kind, name string, raw json.RawMessage) (all []*host.Message, err error) {
	err = a.inPieces(ctx, e, "messages", raw, maxAnswerMessages, func(piece []byte) error {
		list, err := chat.DecodeMessages(piece)
		all = append(all, list...)
		return a.partError(kind, name, err)
	})
	return all, err
}

// readEdits reads the edits of a processor's answer.
func (a Answers) readEdits(ctx context.Context, name string, raw json.RawMessage) (all []chat.Edit, err error) {
	err = a.inPieces(ctx, Process, "edits", raw, maxAnswerEdits, func(piece []byte) error {
		list, err := chat.DecodeEdits(piece)
		all = append(all, list...)
		return a.partError("processor", name, err)
	})
	return all, err
}

// partError names the part in the error of its answer.
func (a Answers) partError(kind, name string, err error) error {
	if err == nil {
		return nil
	}
	return host.Errorf(host.Internal, "plugin %q: the output of %s %q: %w", a.Plugin, kind, name, err)
}

// IsSet reports whether a member is there, and not null.
func IsSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// Route reads the answer of a router.
func (a Answers) Route(ctx context.Context, name string, raw []byte) (*host.Route, error) {
	var got struct {
		Next     []string `json:"next"`
		Delegate string   `json:"delegate"`
		Reason   string   `json:"reason"`
	}
	if err := a.decode(ctx, Route, raw, &got); err != nil {
		return nil, err
	}
	if got.Delegate != "" && len(got.Next) > 0 {
		return nil, host.Errorf(host.Internal, "plugin %q: router %q both names agents and delegates", a.Plugin, name)
	}
	return &host.Route{Next: got.Next, Delegate: got.Delegate, Reason: guesttext.Clean(got.Reason)}, nil
}

// Observe reads the answer of a provider that has observed a run.
func (a Answers) Observe(ctx context.Context, raw []byte) error {
	return a.decode(ctx, Observe, raw, &struct{}{})
}

// Provide reads the answer of a provider, and the names of the tools that it offers.
func (a Answers) Provide(ctx context.Context, name string, raw []byte) (out *host.Provided, tools []string, err error) {
	var got struct {
		Instructions string          `json:"instructions"`
		Messages     json.RawMessage `json:"messages"`
		Store        bool            `json:"store"`
		Tools        []string        `json:"tools"`
	}
	if err := a.decode(ctx, Provide, raw, &got); err != nil {
		return nil, nil, err
	}
	if err := a.checkOffered(name, got.Tools); err != nil {
		return nil, nil, err
	}
	out = &host.Provided{Instructions: got.Instructions, Store: got.Store}
	if IsSet(got.Messages) {
		if out.Messages, err = a.readMessages(ctx, Provide, "provider", name, got.Messages); err != nil {
			return nil, nil, err
		}
	}
	return out, got.Tools, nil
}

// checkOffered refuses the names of tools that a provider has given twice: a model
// could not tell them apart, and each would be made for nothing.
func (a Answers) checkOffered(name string, tools []string) error {
	if err := a.atMost(Provide, "tools", len(tools), maxAnswerTools); err != nil {
		return err
	}
	seen := make(map[string]bool, len(tools))
	for _, tool := range tools {
		if seen[tool] {
			return host.Errorf(host.Internal, "plugin %q: provider %q offers the tool %q twice", a.Plugin, name, guesttext.Clean(tool)).
				WithHint("the plugin is broken: it must name each tool once; see pdk/ABI.md")
		}
		seen[tool] = true
	}
	return nil
}

// toolOutput is a tool's answer.
type toolOutput struct {
	Content   json.RawMessage `json:"content"`
	State     []host.PatchOp  `json:"state"`
	Media     json.RawMessage `json:"media"`     // read when its size is known
	Artifacts json.RawMessage `json:"artifacts"` // likewise
	Schedule  []string        `json:"schedule"`
	Interrupt *host.Interrupt `json:"interrupt"`
}

func (a Answers) decode(ctx context.Context, e Export, raw []byte, into any) error {
	return a.broken(e, jsondoc.UnmarshalInPieces(raw, into, func() error { return callmeter.Yield(ctx) }))
}

// broken is the error of an export whose output can not be read.
func (a Answers) broken(e Export, err error) error {
	if err == nil {
		return nil
	}
	return host.Errorf(host.Internal, "plugin %q: the output of %s is not what the ABI says: %v", a.Plugin, e, err).
		WithHint("the plugin is broken; see pdk/ABI.md")
}

// The bounds of an answer's parts beside the limit OutputBytes. One that has more is
// an error of code internal, as any other answer that breaks the ABI.
const (
	// maxAnswerMessages bounds the messages that a processor or provider returns.
	maxAnswerMessages = 100_000
	// maxAnswerEdits bounds the edits that a processor returns: it may drop each of
	// maxAnswerMessages, and put another before it.
	maxAnswerEdits = 200_000
	// maxAnswerMedia bounds the media that a tool returns beside its content.
	maxAnswerMedia = 64
	// maxDecodedSigns bounds the commas, colons and brackets of JSON that becomes Go values
	// one by one (messages, edits, artifacts). Each value takes its reader some 100
	// bytes of memory, however few it has in the answer.
	maxDecodedSigns = 1 << 20
	// maxAnswerTools bounds the tools that a provider names: as many as a manifest
	// has, and as many of the host's.
	maxAnswerTools = 2 * MaxParts
)

// atMost fails if an answer lists more than max items.
func (a Answers) atMost(e Export, what string, n, max int) error {
	if n <= max {
		return nil
	}
	return host.Errorf(host.Internal, "plugin %q: the output of %s has %d %s, more than %d", a.Plugin, e, n, what, max).
		WithHint("the plugin is broken; see pdk/ABI.md")
}

// decodable fails if a field of an answer has too many values to decode.
func (a Answers) decodable(e Export, what string, raw []byte) error {
	return a.atMost(e, "commas, colons and brackets in its "+what, jsondoc.CountSigns(raw), maxDecodedSigns)
}

// pieceBytes is how much of a long list of messages or edits is read at once. A
// piece takes some milliseconds.
const pieceBytes = 128 << 10

// inPieces reads the array that an answer has under a name, if it has at most max
// items. It reads arrays of whole items, of some pieceBytes, and lets others run in
// between.
func (a Answers) inPieces(ctx context.Context, e Export, what string, raw json.RawMessage, max int, read func(piece []byte) error) error {
	if err := a.decodable(e, what, raw); err != nil {
		return err
	}
	if err := a.atMost(e, what, jsondoc.CountElements(raw), max); err != nil {
		return err
	}
	if len(raw) <= pieceBytes || raw[0] != '[' {
		return read(raw)
	}
	piece := append(make([]byte, 0, pieceBytes), '[')
	flush := func() error {
		piece[len(piece)-1] = ']' // in the place of the last comma
		err := read(piece)
		if piece = append(piece[:0], '['); err == nil {
			err = callmeter.Yield(ctx)
		}
		return err
	}
	err := jsondoc.EachElement(raw, func(_ int, item []byte) error {
		if len(piece) > 1 && len(piece)+len(item) >= pieceBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		piece = append(append(piece, item...), ',')
		return nil
	})
	if err == nil && len(piece) > 1 {
		err = flush()
	}
	return err
}

// OrNull returns raw, and null for nothing.
func OrNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}
