package pdktest

import (
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

// A Host stands in for the host of a plugin. The zero value runs the registered
// plugin on an empty conversation with an empty state. Fields are set before a
// call and read after it; a Host is not safe for concurrent use, but tests with
// their own hosts may run in parallel.
type Host struct {
	// Plugin is the plugin that runs; nil is pdk.Registered().
	Plugin *pdk.Plugin

	// Messages is the conversation, as a JSON array of messages.
	Messages pdk.Raw

	// State is the network's state, as a JSON object. state.get reads it, and
	// state.patch and a tool's state operations change it. "" is {}.
	State pdk.Raw

	// Revision is the state's revision.
	Revision int64

	// Own is what a provider keeps in the thread; "" is nothing. Provider calls read
	// it with provider_state.get and change it with provider_state.put.
	Own         pdk.Raw
	OwnRevision int64

	// Tokens counts the tokens of a text for outlines and tokens.count. nil
	// counts one for every four bytes, rounded up.
	Tokens func(text string) int

	// Scope names the tenant, user, thread and run that a call is made for.
	Scope pdk.Scope

	// Ops are further host operations by name. They go before the host's own.
	Ops map[string]func(request pdk.Raw) (pdk.Raw, *pdk.Error)

	// KV is what the plugin keeps, by key, and Artifacts what the session has, by
	// name, of this and earlier turns: plugins read what a test puts there, and tests what plugins write.
	KV        map[string]Item
	Artifacts map[string]Artifact

	// Fetch answers http.fetch, and Generate model.generate, as its request and
	// response stand in the contract. Without them the operations are
	// unimplemented.
	Fetch    func(HTTPRequest) (pdk.HTTPResponse, *pdk.Error)
	Generate func(request pdk.Raw) (pdk.Raw, *pdk.Error)

	// Steps are the results of steps that are done, by name.
	Steps map[string]pdk.Raw

	// Jobs is what the plugin has left for after the turn.
	Jobs []Job

	// Events is what the plugin has emitted, Logs what it has logged, and Calls
	// the names of all host operations that it has called.
	Events []Event
	Logs   []LogLine
	Calls  []string

	revisions int64
	uploads   map[string]*Artifact
	begun     map[string]bool // steps
	reads     []argumentRead  // of the last call
	typo      *pdk.Error      // of the last call
}

var (
	_ pdk.Host           = (*Host)(nil)
	_ pdk.ArgumentReader = (*Host)(nil)
)

// An Event is something that a plugin emitted.
type Event struct {
	Kind string
	Data pdk.Raw
}

// A LogLine is one message of a plugin's log.
type LogLine struct {
	Level   pdk.Level
	Message string
}

// running serialises calls: a plugin's host operations are package functions, so
// there is one host at a time.
var running sync.Mutex

// Call runs an export ("tool", "process", "route", "provide", "observe" or
// "describe") with the given input and returns its output or its error. A tool that
// reads an argument that its parameters do not name is an error of the plugin's
// author, whatever it answers: code internal here, and the end of the test in the
// methods below.
func (h *Host) Call(export string, input pdk.Raw) (output pdk.Raw, failure *pdk.Error) {
	running.Lock()
	defer running.Unlock()
	p := h.Plugin
	if p == nil {
		p = pdk.Registered()
	}
	var status int32
	h.reads = h.reads[:0]
	pdk.WithHost(h, func() {
		out, code := p.Call(export, []byte(input))
		output, status = pdk.Raw(out), code
	})
	if h.typo = h.misnamed(p); h.typo != nil {
		return "", h.typo
	}
	if status == 0 {
		return output, nil
	}
	failure = new(pdk.Error)
	if err := json.Unmarshal([]byte(output), (*errorJSON)(failure)); err != nil {
		failure = pdk.Errorf(pdk.Internal, "error object %s: %v", output, err)
	}
	return "", failure
}

// Run is Call for a call that is to succeed: it fails the test if the plugin
// does, or if the output is not JSON.
func (h *Host) Run(t testing.TB, export string, input pdk.Raw) pdk.Raw {
	t.Helper()
	output, failure := h.Call(export, input)
	if failure != nil {
		t.Fatalf("%s(%s): %v", export, input, failure)
	}
	if !json.Valid([]byte(output)) || !utf8.ValidString(string(output)) {
		t.Fatalf("%s(%s): output is not JSON in UTF-8: %s", export, input, output)
	}
	return output
}

// Tool calls a tool, with arguments that fit its parameters, and returns its
// content. State operations are applied to the
// host's state. The test fails if the tool does, or asks a person.
func (h *Host) Tool(t testing.TB, name string, arguments pdk.Raw) pdk.Raw {
	t.Helper()
	h.checkArguments(t, name, arguments)
	output := h.Run(t, "tool", h.toolCall(name, arguments))
	if output.Get("interrupt") != "" {
		t.Fatalf("tool %s(%s) asks a person: %s", name, arguments, output)
	}
	if ops := output.Get("state"); ops != "" {
		if err := h.patch(ops); err != nil {
			t.Fatalf("tool %s(%s): state operations %s: %v", name, arguments, ops, err)
		}
	}
	return output.Get("content")
}

// ToolError calls a tool that is to fail, with arguments that fit its parameters,
// and returns its error.
func (h *Host) ToolError(t testing.TB, name string, arguments pdk.Raw) *pdk.Error {
	t.Helper()
	h.checkArguments(t, name, arguments)
	output, failure := h.Call("tool", h.toolCall(name, arguments))
	if h.typo != nil {
		t.Fatalf("tool %s(%s): %v", name, arguments, h.typo)
	}
	if failure == nil {
		t.Fatalf("tool %s(%s) = %s, want an error", name, arguments, output)
	}
	return failure
}

func (h *Host) toolCall(name string, arguments pdk.Raw) pdk.Raw {
	var w pdk.Writer
	w.BeginObject().Key("tool").Str(name).Key("call_id").Str("call_1").Key("idempotency_key").Str("key_1")
	w.Key("attempt").Int(1).Key("arguments").Raw(arguments).Key("scope").Raw(h.scope())
	w.Key("state").Raw(h.state()).Key("state_revision").Int(h.Revision)
	return w.EndObject().Value()
}

// Processed is what a processor made of the host's conversation.
type Processed struct {
	Messages []pdk.Message // after the edits
	Output   pdk.Raw       // what the processor returned
	Report   pdk.Raw       // "" if it reported nothing
}

// Process runs a processor on the host's conversation, as messages or as an
// outline, whichever its registration asks for, and applies its edits. The test
// fails if the processor does or if an edit breaks a rule.
func (h *Host) Process(t testing.TB, processor string, config pdk.Raw) Processed {
	t.Helper()
	messages := h.conversation(t)
	output := h.Run(t, "process", h.processCall(t, processor, config, messages))
	after, err := ApplyOutput(messages, output)
	if err != nil {
		t.Fatalf("processor %s: %v", processor, err)
	}
	return Processed{Messages: after, Output: output, Report: output.Get("report")}
}

// ProcessError runs a processor that is to fail and returns its error.
func (h *Host) ProcessError(t testing.TB, processor string, config pdk.Raw) *pdk.Error {
	t.Helper()
	output, failure := h.Call("process", h.processCall(t, processor, config, h.conversation(t)))
	if failure == nil {
		t.Fatalf("processor %s with %s = %s, want an error", processor, config, output)
	}
	return failure
}

func (h *Host) processCall(t testing.TB, processor string, config pdk.Raw, messages []pdk.Message) pdk.Raw {
	t.Helper()
	var w pdk.Writer
	w.BeginObject().Key("processor").Str(processor)
	if config != "" {
		w.Key("config").Raw(config)
	}
	w.Key("scope").Raw(h.scope()).Key("model").Str("test")
	spec := h.manifestEntry(t, "processors", processor)
	if input, _ := spec.Get("input").Str(); input != "outline" {
		return w.Key("messages").Raw(h.raw()).EndObject().Value()
	}
	count := h.count
	if spec.Get("tokens") == "" {
		count = nil
	}
	return w.Key("outline").Raw(EncodeOutline(NewOutline(messages, count))).EndObject().Value()
}

// manifestEntry returns what the plugin's manifest says about one of its parts,
// "" if it does not have it.
func (h *Host) manifestEntry(t testing.TB, list, name string) pdk.Raw {
	t.Helper()
	for entry := range h.Run(t, "describe", "").Get(list).Elements() {
		if got, _ := entry.Get("name").Str(); got == name {
			return entry
		}
	}
	return ""
}

func (h *Host) conversation(t testing.TB) []pdk.Message {
	t.Helper()
	messages, err := pdk.ParseMessages(h.raw())
	if err != nil {
		t.Fatalf("Host.Messages: %v", err)
	}
	return messages
}

func (h *Host) raw() pdk.Raw {
	if h.Messages == "" {
		return "[]"
	}
	return h.Messages
}

func (h *Host) scope() pdk.Raw {
	var w pdk.Writer
	w.BeginObject()
	for _, f := range []struct{ name, value string }{
		{"tenant", h.Scope.Tenant}, {"thread", h.Scope.Thread}, {"run", h.Scope.Run},
		{"network", h.Scope.Network}, {"agent", h.Scope.Agent},
	} {
		if f.value != "" {
			w.Key(f.name).Str(f.value)
		}
	}
	return w.EndObject().Value()
}

func (h *Host) count(text string) int {
	if h.Tokens != nil {
		return h.Tokens(text)
	}
	return (len(text) + 3) / 4
}

// HostCall answers a host operation: one of Ops, or one of the contract, from the
// host's fields. Everything is granted. An operation without a field, or whose field
// is not set, is unimplemented, as in a host that lacks it.
func (h *Host) HostCall(op string, request pdk.Raw) (pdk.Raw, *pdk.Error) {
	// The request lies in the plugin's memory, so it is copied.
	request = pdk.Raw([]byte(request))
	h.Calls = append(h.Calls, op)
	if f := h.Ops[op]; f != nil {
		return f(request)
	}
	if !request.Valid() {
		return "", pdk.Errorf(pdk.InvalidArgument, "request of %s is not JSON: %s", op, request)
	}
	switch op {
	case "messages.get":
		return h.messagesGet(request)
	case "tokens.count":
		return h.tokensCount(request)
	case "emit":
		kind, _ := request.Get("kind").Str()
		h.Events = append(h.Events, Event{kind, request.Get("data")})
		return "{}", nil
	case "state.get":
		return h.stateGet(request)
	case "state.patch":
		return h.statePatch(request)
	}
	if f := h.operation(op); f != nil {
		return f(request)
	}
	return "", pdk.Errorf(pdk.Unimplemented, "host operation %s is not in this host", op)
}

// HostCallBytes answers an operation with bytes beside its request as HostCall does, which has
// them in base64.
func (h *Host) HostCallBytes(op string, request pdk.Raw, data []byte) (pdk.Raw, []byte, *pdk.Error) {
	field := map[string]string{"artifact.write": "data", "http.fetch": "body", "kv.put": "value"}[op]
	n, counts := request.Get(field).Int()
	if counts = counts && field != ""; !counts {
		n = 0
	}
	if n != int64(len(data)) {
		return "", nil, pdk.Errorf(pdk.InvalidArgument, "request of %s: it counts %d bytes, and %d stand beside it", op, n, len(data))
	}
	var w pdk.Writer
	if counts {
		request = withMember(request, field, w.Bytes(data).Value())
	}
	response, err := h.HostCall(op, request)
	if err != nil {
		return "", nil, err
	}
	return bytesBeside(op, response)
}

// bytesBeside takes the bytes out of a response.
func bytesBeside(op string, response pdk.Raw) (pdk.Raw, []byte, *pdk.Error) {
	field := map[string]string{"artifact.read": "data", "http.fetch": "body", "kv.get": "value", "kv.list": "value"}[op]
	if op != "kv.list" {
		response, beside := counted(response, field)
		return response, beside, nil
	}
	var beside []byte
	var entries pdk.Writer
	entries.BeginArray()
	for entry := range response.Get("entries").Elements() {
		entry, value := counted(entry, field)
		entries.Raw(entry)
		beside = append(beside, value...)
	}
	return withMember(response, "entries", entries.EndArray().Value()), beside, nil
}

// counted returns an object with the number of a member's bytes in their place; an object
// without that member stays.
func counted(object pdk.Raw, name string) (pdk.Raw, []byte) {
	data, ok := object.Get(name).Bytes()
	if !ok {
		return object, nil
	}
	var w pdk.Writer
	return withMember(object, name, w.Int(int64(len(data))).Value()), data
}

// withMember returns an object with another value of a member.
func withMember(object pdk.Raw, name string, value pdk.Raw) pdk.Raw {
	var w pdk.Writer
	w.BeginObject()
	for key, v := range object.Members() {
		if key == name {
			v = value
		}
		w.Key(key).Raw(v)
	}
	return pdk.Raw([]byte(w.EndObject().Value()))
}

// Log keeps a message of the plugin's log.
func (h *Host) Log(level pdk.Level, message string) {
	h.Logs = append(h.Logs, LogLine{level, string([]byte(message))})
}

func (h *Host) messagesGet(request pdk.Raw) (pdk.Raw, *pdk.Error) {
	var messages []pdk.Raw
	for m := range h.raw().Elements() {
		messages = append(messages, m)
	}
	var w pdk.Writer
	w.BeginObject().Key("messages").BeginArray()
	for element := range request.Get("indices").Elements() {
		i, ok := element.Int()
		if !ok || i < 0 || i >= int64(len(messages)) {
			return "", pdk.Errorf(pdk.InvalidArgument, "messages.get: index %s of %d messages", element, len(messages))
		}
		w.Raw(messages[i])
	}
	return w.EndArray().EndObject().Value(), nil
}

func (h *Host) tokensCount(request pdk.Raw) (pdk.Raw, *pdk.Error) {
	encoding, _ := request.Get("encoding").Str()
	if encoding == "" {
		encoding = "o200k_base"
	}
	var w pdk.Writer
	w.BeginObject().Key("tokens").BeginArray()
	for element := range request.Get("texts").Elements() {
		text, ok := element.Str()
		if !ok {
			return "", pdk.Errorf(pdk.InvalidArgument, "tokens.count: %s is not a text", element)
		}
		w.Int(int64(h.count(text)))
	}
	return w.EndArray().Key("encoding").Str(encoding).Key("exact").Bool(true).EndObject().Value(), nil
}

// errorJSON reads the contract's error object.
type errorJSON pdk.Error

// UnmarshalJSON reads the contract's error object.
func (e *errorJSON) UnmarshalJSON(b []byte) error {
	raw := pdk.Raw(b)
	code, ok := raw.Get("code").Str()
	if !ok || !slices.Contains(codes, pdk.Code(code)) {
		return pdk.Errorf(pdk.Internal, "code %s is not one of the contract's", raw.Get("code"))
	}
	e.Code = pdk.Code(code)
	e.Message, _ = raw.Get("message").Str()
	e.Hint, _ = raw.Get("hint").Str()
	e.Retryable, _ = raw.Get("retryable").Bool()
	return nil
}

var codes = []pdk.Code{
	pdk.InvalidArgument, pdk.Unauthenticated, pdk.PermissionDenied, pdk.NotFound, pdk.AlreadyExists,
	pdk.Conflict, pdk.ResourceExhausted, pdk.FailedPrecondition, pdk.DeadlineExceeded, pdk.Canceled,
	pdk.Unavailable, pdk.Unimplemented, pdk.DataLoss, pdk.Internal,
}
