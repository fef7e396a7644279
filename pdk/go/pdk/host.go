package pdk

// A Host answers a plugin's host operations and takes its log. In a module it is
// the host that runs the module. A native program has no host until a test sets
// one, as package pdktest does.
type Host interface {
	// HostCall runs the operation op. Request and response are JSON.
	HostCall(op string, request Raw) (response Raw, err *Error)

	// Log takes one message.
	Log(level Level, message string)
}

// A Level is how much a log message matters.
type Level uint32

// The levels, as the contract numbers them.
const (
	LevelDebug Level = iota
	LevelInfo
	LevelWarn
	LevelError
)

// host is what the package functions below speak to: there is one per module,
// as the imports are.
var host Host = systemHost{}

// An ArgumentReader is a [Host] of a test that wants to know which arguments a
// tool reads, by their names.
type ArgumentReader interface {
	ReadArgument(tool, name string)
}

// WithHost runs f with h in the place of the host. It is for tests; at most one
// call of it may be running.
func WithHost(h Host, f func()) {
	before, told := host, onArgument
	host, onArgument = h, nil
	if reader, ok := h.(ArgumentReader); ok {
		onArgument = reader.ReadArgument
	}
	defer func() { host, onArgument = before, told }()
	f()
}

// Log writes to the plugin's log, which the host keeps and caps. Behind the message come
// attributes, each a name and its value:
//
//	pdk.Log(pdk.LevelInfo, "order is late", "order", 1042, "days", 2.5)
//
// writes the line
//
//	order is late order=1042 days=2.5
//
// A value is a string, an integer, a float64, a bool, a [Raw] or an error; any other is written
// as its kind is unknown. What needs quotes to be read back has those of JSON. A name without a
// value has the value !MISSING.
func Log(level Level, message string, attributes ...any) {
	if len(attributes) > 0 {
		message = withAttributes(message, attributes)
	}
	host.Log(level, message)
}

// HostCall runs any host operation. An operation that this host does not have
// fails with code [Unimplemented]. The response is valid until the handler
// returns. Errors are *Error.
func HostCall(op string, request Raw) (Raw, error) {
	response, err := host.HostCall(op, request)
	if err != nil {
		return "", err
	}
	return response, nil
}

// Emit sends an event to the run's stream while the call is still running: kind
// is a name such as "progress", data any JSON.
func Emit(kind string, data Raw) error {
	var w Writer
	w.BeginObject().key("kind").Str(kind).key("data").Raw(data).EndObject()
	_, err := HostCall("emit", borrowed(&w))
	return err
}

// KindOutput is the kind of the events of [Output].
const KindOutput = "output"

// Output sends a piece of the text that a tool is making to the run's stream, for people who wait
// for it: an event of kind "output" with data {"text": ...}. Pieces follow each other, and clients
// show them joined. The model is given the content of the call alone.
func Output(text string) error {
	var w Writer
	return Emit(KindOutput, borrowed(w.BeginObject().key("text").Str(text).EndObject()))
}

// Progress sends how far a call is to the run's stream: an event of kind "progress". A total of 0
// is unknown.
func Progress(message string, done, total float64) error {
	var w Writer
	w.BeginObject()
	w.member("message", message)
	w.key("done").Float(done)
	if total > 0 {
		w.key("total").Float(total)
	}
	return Emit("progress", borrowed(w.EndObject()))
}

// State returns the value at path, a JSON pointer, in the network's state, and
// the state's revision. The empty path is the whole state. A path that leads
// nowhere is [NotFound].
func State(path string) (value Raw, revision int64, err error) {
	var w Writer
	w.BeginObject()
	w.member("path", path)
	response, err := HostCall("state.get", borrowed(w.EndObject()))
	if err != nil {
		return "", 0, err
	}
	revision, _ = response.Get("revision").Int()
	return response.Get("value"), revision, nil
}

// PatchState changes the network's state at once: all operations or none. It
// returns the new revision. A failed test operation is [Conflict].
func PatchState(ops ...PatchOp) (revision int64, err error) { return patchState(-1, ops) }

// PatchStateAt is PatchState if the state is still at the given revision, and
// [Conflict] if it is not.
func PatchStateAt(revision int64, ops ...PatchOp) (int64, error) { return patchState(revision, ops) }

func patchState(at int64, ops []PatchOp) (int64, error) {
	var w Writer
	w.BeginObject()
	w.key("patch").BeginArray()
	for _, op := range ops {
		op.append(&w)
	}
	w.EndArray()
	if at >= 0 {
		w.key("revision").Int(at)
	}
	response, err := HostCall("state.patch", borrowed(w.EndObject()))
	if err != nil {
		return 0, err
	}
	revision, _ := response.Get("revision").Int()
	return revision, nil
}

// MessagesGet returns the messages at the given indices of the conversation that
// the call's outline describes.
func MessagesGet(indices ...int) ([]Message, error) {
	var w Writer
	w.BeginObject().key("indices").BeginArray()
	for _, i := range indices {
		w.Int(int64(i))
	}
	response, err := HostCall("messages.get", borrowed(w.EndArray().EndObject()))
	if err != nil {
		return nil, err
	}
	return ParseMessages(response.Get("messages"))
}

// A TokenCount is how many tokens texts have.
type TokenCount struct {
	Tokens   []int  // one for each text
	Encoding string // that they were counted in
	Exact    bool   // false: the host has no tables for the encoding and estimates
}

// TokensCount counts the tokens of texts in an encoding; "" is that of the model
// that the call is for.
func TokensCount(encoding string, texts ...string) (TokenCount, error) {
	var w Writer
	w.BeginObject()
	w.strings("texts", texts)
	w.member("encoding", encoding)
	response, err := HostCall("tokens.count", borrowed(w.EndObject()))
	if err != nil {
		return TokenCount{}, err
	}
	var out TokenCount
	in := reader{scan: scanner{src: string(response)}}
	in.scan.open('{')
	for in.scan.next('}') {
		switch in.scan.key() {
		case "tokens":
			out.Tokens = in.column(make([]int, 0, len(texts)), 0)
		case "encoding":
			out.Encoding = in.scan.str()
		case "exact":
			out.Exact = in.scan.boolean()
		default:
			in.scan.skip()
		}
	}
	if err := in.finish("read token counts"); err != nil {
		return TokenCount{}, err
	}
	if len(out.Tokens) != len(texts) {
		return TokenCount{}, Errorf(Internal, "the host counted %d texts of %d", len(out.Tokens), len(texts))
	}
	return out, nil
}

// borrowed returns what w has written without copying it.
func borrowed(w *Writer) Raw { return Raw(borrow(w.buf)) }
