package extism

import (
	"encoding/binary"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
	"github.com/agenthost/agenthost/host/plugin/internal/fairsched"
	"github.com/agenthost/agenthost/host/plugin/internal/linearmem"
)

// MaxErrorText bounds the text of an error that a guest sets.
const MaxErrorText = 16 << 10

// Host answers what an instance's guest asks for in a call.
type Host interface {
	// Operate runs a host operation of pdk/ABI.md.
	Operate(op string, request []byte) ([]byte, error)

	// Answer runs a host operation and returns {"ok": ...} or {"error": {...}}.
	Answer(op string, request []byte) []byte

	// Log writes to the guest's log: level 0 is debug, 1 info, 2 a warning, 3 an error.
	Log(level int, text []byte)
}

// Options are those of one plugin. They do not change.
type Options struct {
	Config     map[string]string // that the guest reads
	HTTPBytes  int               // the most that the body of an HTTP response has; 0: as much as http.fetch gives
	BlockBytes int               // the limit of that name, at most MaxBlockBytes
}

// Limits are those of one call, by their names among a plugin's limits.
type Limits struct{ OutputBytes, VarBytes int }

// State is the host's side of an instance. It is for the goroutine of the call. The
// methods without a call in progress do nothing with a nil State, which is a native
// plugin's.
type State struct {
	opts   *Options
	host   Host
	memory memory
	vars   variables
	tenant string // whose variables they are
	own    bool   // it has read config or kept data that an image does not hold
	call   call
}

// call is the part of the state that belongs to one call.
type call struct {
	limits Limits
	given  []byte // input

	inputAsked bool // the input is a block
	inputAt    uint64
	output     output
	errorAt    uint64
	errorText  string
	status     int // of the last HTTP response
	headers    []byte
}

// New returns the state of an instance. Its memory counts in a budget.
func New(opts *Options, meter *callmeter.Meter, h Host, memories *linearmem.Budget, flow *fairsched.Flow) *State {
	return &State{opts: opts, host: h, memory: memory{meter: meter,
		blocks: blocks{limit: opts.BlockBytes, claim: linearmem.Claim{Budget: memories, Flow: flow}}}}
}

// Lend counts the memory for the call of that flow from now on; nil: for no call.
func (s *State) Lend(to *fairsched.Flow) {
	if s != nil {
		s.memory.blocks.claim.Lend(to)
	}
}

// Close frees the host's resources of the instance.
func (s *State) Close() {
	if s != nil {
		s.vars = nil
		s.memory.blocks.close()
	}
}

// Begin prepares for a call of a tenant. Variables are never another's.
func (s *State) Begin(tenant string, input []byte, limits Limits) {
	if s == nil {
		return
	}
	if s.Rest(); s.tenant != tenant {
		s.Forget()
		s.tenant = tenant
	}
	s.call.given, s.call.limits = input, limits
}

// Rest frees the resources that an idle instance does not need.
func (s *State) Rest() {
	if s != nil {
		s.call = call{}
		s.memory.blocks.reset(maxKeptBlocks)
	}
}

// Forget drops the variables, as of a new instance.
func (s *State) Forget() {
	if s != nil {
		s.vars = nil
		s.memory.blocks.keepVars(0)
	}
}

// HasOwn reports whether start-up code has read the configuration or kept a variable:
// then the instance's memory is no image for other plugins of the same module.
func (s *State) HasOwn() bool { return s != nil && s.own }

// Size returns the bytes that the host holds for the instance.
func (s *State) Size() int64 {
	if s == nil {
		return 0
	}
	return int64(s.memory.blocks.size())
}

// ErrorText returns the text of the error that the guest has set, if any.
func (s *State) ErrorText() string {
	if s == nil {
		return ""
	}
	return s.call.errorText
}

// TakeOutput returns the call's output for the caller to keep.
func (s *State) TakeOutput() []byte {
	if s.call.output.saved != nil {
		return s.call.output.saved
	}
	view, _ := s.memory.blocks.view(s.call.output.at, s.call.output.n)
	return slices.Clone(view)
}

// input is the call's input, as the guest may have changed it.
func (s *State) input() []byte {
	if s.call.inputAsked {
		return s.memory.blocks.bytes(s.call.inputAt)
	}
	return s.call.given
}

// inputOffset makes the input a block. Most plugins never ask for one.
func (s *State) inputOffset() uint64 {
	if c := &s.call; !c.inputAsked {
		c.inputAt, c.inputAsked = s.memory.put(c.given), true
	}
	return s.call.inputAt
}

// inputLoad8 returns a byte of the input, 0 past its end.
func (s *State) inputLoad8(at uint64) uint64 {
	if in := s.input(); at < uint64(len(in)) {
		return uint64(in[at])
	}
	return 0
}

func (s *State) inputLoad64(at uint64) uint64 {
	in, m := s.input(), s.memory.meter
	if at > uint64(len(in)) || uint64(len(in))-at < 8 {
		m.Stop(host.Errorf(host.Internal, "%s: input_load_u64 names 8 bytes at %d of an input of %d", m.Subject(), at, len(in)).
			WithHint("the plugin is broken"))
	}
	return binary.LittleEndian.Uint64(in[at:])
}

// output is a range of the blocks' memory, or the bytes that were there when their block
// was freed.
type output struct {
	at, n uint64
	set   bool
	saved []byte
}

// setOutput notes where the output is. The bytes are read when the call is over, or when
// their block is freed.
func (s *State) setOutput(at, n uint64) {
	m := s.memory.meter
	if limit := s.call.limits.OutputBytes; n > uint64(limit) {
		m.Stop(host.Errorf(host.ResourceExhausted, "%s wrote more than the limit OutputBytes of %d", m.Subject(), limit))
	}
	if at == 0 && n == 0 {
		return // no block: the output set before stands, as in Extism
	}
	if _, ok := s.memory.blocks.view(at, n); !ok {
		s.memory.stopOutside("output_set", at, n)
	}
	m.Charge(int64(n) / callmeter.BytesPerInstruction)
	s.call.output = output{at: at, n: n, set: true}
}

// free gives a block back, and keeps a copy of the output that begins in it.
func (s *State) free(at uint64) {
	out := &s.call.output
	if out.set && out.saved == nil && out.at-at < s.memory.blocks.length(at) { // it begins in this block
		view, _ := s.memory.blocks.view(out.at, out.n)
		out.saved = slices.Clone(view)
	}
	s.memory.blocks.free(at)
}

// setError sets the text of the call's error; 0 takes it back.
func (s *State) setError(at uint64) {
	s.call.errorAt = at
	text := s.memory.read(at)
	s.call.errorText = string(text[:min(len(text), MaxErrorText)])
}

// config returns the block of a value of the configuration, 0 for an unknown key.
func (s *State) config(key uint64) uint64 {
	s.own = true
	value, ok := s.opts.Config[string(s.memory.read(key))]
	if !ok {
		return 0
	}
	return s.memory.put([]byte(value))
}

// log writes a block to the log, and frees it.
func (s *State) log(level int, at uint64) {
	s.host.Log(level, s.memory.blocks.bytes(at))
	s.free(at)
}

// maxOperationName bounds the name that a guest gives in agenthost_call, as in host_call.
const maxOperationName = 64

// operate returns the block of what a host operation answers.
func (s *State) operate(op, request uint64) uint64 {
	name, m := s.memory.read(op), s.memory.meter
	if len(name) > maxOperationName {
		m.Stop(host.Errorf(host.Internal, "%s: agenthost_call names an operation in %d bytes, more than %d", m.Subject(), len(name), maxOperationName).
			WithHint("the plugin is broken; see pdk/ABI.md"))
	}
	return s.memory.put(s.host.Answer(string(name), slices.Clone(s.memory.read(request))))
}

// operateAs returns the block of what one operation answers to the block of a request. An
// error ends the call, as that of a host function does in Extism's own hosts.
func (s *State) operateAs(op string, request uint64) uint64 {
	m := s.memory.meter
	response, err := s.host.Operate(op, slices.Clone(s.memory.read(request)))
	if err != nil {
		e := *fault.ForClient(err, "")
		e.Message = m.Subject() + ": " + e.Message
		m.StopBlameless(&e)
	}
	return s.memory.put(response)
}
