package wasienv

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"io"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
	"github.com/agenthost/agenthost/host/plugin/internal/guesttext"
)

// Host is what the environment asks of the call that it serves.
type Host interface {
	// Grants returns the present permissions of the call's tenant.
	Grants() (clock, random bool)

	// Note records that real time or real random bytes were read.
	Note(clock, random bool)

	// Log writes to the guest's log: level 1 is stdout, 2 is stderr.
	Log(level int, text []byte)

	// LogRoom returns how many bytes the log takes in this call, negative if none.
	LogRoom() int
}

// Env is the environment of one instance. It is for the goroutine of the call.
type Env struct {
	host    Host
	meter   *callmeter.Meter
	started time.Time // where the real monotonic clock starts

	begin, now int64  // of the virtual clock, nanoseconds since 1970
	seed       uint64 // of the fixed random bytes
	clockNoted bool   // the real time, once a call
	panicText  []byte // of stderr: a panic's message

	keepsState bool // the guest has done what no image undoes, see KeepState
	realRandom bool // the guest has read real random bytes
	clock      bool // the guest has read a clock
	random     bool // the guest has read random bytes

	// Start-up code reads the virtual clock, also of a tenant that is granted the
	// real one: an image is of no time. After start-up the real clock continues
	// from the virtual time, so that monotonic time never goes back.
	startOver bool
	startTook int64 // how far the virtual clock was then, in nanoseconds

	output, errors lineWriter
}

// New returns the environment of an instance, whose real monotonic clock counts from
// started.
func New(h Host, m *callmeter.Meter, started time.Time) *Env {
	e := &Env{host: h, meter: m, started: started}
	e.output, e.errors = lineWriter{env: e, level: 1}, lineWriter{env: e, level: 2}
	return e
}

// ClockStep is by how much a reading moves a virtual clock, and the resolution of clocks,
// in nanoseconds.
const ClockStep = int64(time.Millisecond)

const (
	epoch = 1_735_689_600 * int64(time.Second) // when a virtual clock starts: 2025-01-01

	// clockEnd is where a virtual clock stops: in the year 2225.
	clockEnd = epoch + 200*365*24*int64(time.Hour)
)

// Reset begins a call, with the clock and the random bytes of every call.
func (e *Env) Reset() {
	e.begin, e.now, e.seed = epoch, epoch, 0x9e3779b97f4a7c15
	e.clockNoted = false // the call may be another tenant's
	e.panicText = e.panicText[:0]
}

// SetOrigin gives a call that has begun a virtual clock and fixed random bytes of its own: the
// clock starts at a time, from 1970 to 2225, and the bytes follow from seed. Zero values
// change nothing.
func (e *Env) SetOrigin(clock time.Time, seed uint64) {
	if !clock.IsZero() {
		e.begin = max(0, min(clock.UnixMilli(), clockEnd/int64(time.Millisecond))) * int64(time.Millisecond)
		e.now = e.begin
	}
	e.seed = cmp.Or(seed, e.seed)
}

// Flush logs the lines that the guest has not ended.
func (e *Env) Flush() {
	e.output.flush()
	e.errors.flush()
}

// Output returns stdout.
func (e *Env) Output() io.Writer { return &e.output }

// Errors returns stderr.
func (e *Env) Errors() io.Writer { return &e.errors }

// EndStart notes that start-up code has run, and how much virtual time it took.
func (e *Env) EndStart(took time.Duration) { e.startOver, e.startTook = true, took.Nanoseconds() }

// Elapsed returns how far the virtual clock has moved in the call.
func (e *Env) Elapsed() time.Duration { return time.Duration(e.now - e.begin) }

// StartTook returns how much virtual time start-up code took.
func (e *Env) StartTook() time.Duration { return time.Duration(e.startTook) }

// KeepState notes that the guest has called a function whose effects no image undoes.
func (e *Env) KeepState() { e.keepsState = true }

// KeepsState reports whether KeepState was called.
func (e *Env) KeepsState() bool { return e.keepsState }

// ReadClock reports whether the guest has read a clock.
func (e *Env) ReadClock() bool { return e.clock }

// ReadRandom reports whether the guest has read random bytes, and whether real ones.
func (e *Env) ReadRandom() (any, real bool) { return e.random, e.realRandom }

// tellsTime reports whether the guest may know the time. It asks each time, since grants
// change while instances wait.
func (e *Env) tellsTime() bool {
	e.clock = true
	if !e.startOver {
		return false
	}
	granted, _ := e.host.Grants()
	if granted && !e.clockNoted {
		e.clockNoted = true
		e.host.Note(true, false)
	}
	return granted
}

// Walltime returns the time in seconds and nanoseconds.
func (e *Env) Walltime() (int64, int32) {
	if e.tellsTime() {
		now := time.Now()
		return now.Unix(), int32(now.Nanosecond())
	}
	e.now += ClockStep
	return e.now / int64(time.Second), int32(e.now % int64(time.Second))
}

// Nanotime returns the monotonic clock in nanoseconds.
func (e *Env) Nanotime() int64 {
	if e.tellsTime() {
		return e.startTook + time.Since(e.started).Nanoseconds()
	}
	e.now += ClockStep
	return e.now - e.begin
}

// Sleep moves the virtual clock. Nothing really waits: a guest cannot hold a
// thread. With a real clock it waits, at most until the call must end.
func (e *Env) Sleep(ns int64) {
	if ns <= 0 {
		return
	}
	if !e.tellsTime() {
		e.now = min(e.now+min(ns, int64(time.Hour)), clockEnd)
		return
	}
	e.meter.Sleep(time.Duration(ns))
}

// randomPiece is how many random bytes are made between two looks at the deadline.
// It is a multiple of the eight that one step of splitmix64 makes.
const randomPiece = 64 << 10

// Read fills the beginning of b with random bytes: real ones if granted, the fixed
// ones of splitmix64 otherwise. WASI reads until it has what the guest asked for.
func (e *Env) Read(b []byte) (int, error) {
	e.meter.CheckTime()
	e.meter.YieldThread(time.Now())
	b = b[:min(len(b), randomPiece)]
	e.random = true
	if _, granted := e.host.Grants(); granted {
		e.realRandom = true
		e.host.Note(false, true)
		return rand.Read(b)
	}
	for i := range b {
		if i%8 == 0 {
			e.seed += 0x9e3779b97f4a7c15
		}
		z := e.seed
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
		b[i] = byte(z >> (i % 8 * 8))
	}
	return len(b), nil
}

// maxLastWords bounds the part of stderr kept for an error's text.
const maxLastWords = 4 << 10

// LastWords returns the message of a Go guest's panic or fatal error, if it
// wrote one.
func (e *Env) LastWords() string {
	line, _, _ := strings.Cut(string(e.panicText), "\n")
	return strings.TrimSpace(guesttext.Clean(line))
}

// keepPanicText keeps stderr from the last "panic: " or "fatal error: " of a Go guest on. The
// Go runtime writes that prefix by itself, and then the message.
func (e *Env) keepPanicText(b []byte) {
	if bytes.HasPrefix(b, []byte("panic: ")) || bytes.HasPrefix(b, []byte("fatal error: ")) {
		e.panicText = e.panicText[:0]
	} else if len(e.panicText) == 0 {
		return
	}
	e.panicText = append(e.panicText, b[:min(len(b), maxLastWords-len(e.panicText))]...)
}

// lineWriter sends a guest's stdout or stderr to its log by lines. A Go guest's
// panic, for one, is written a word at a time.
type lineWriter struct {
	env   *Env
	level int
	line  []byte // begun
}

// maxLogLine bounds the part kept of a line that does not end.
const maxLogLine = 4 << 10

// Write implements io.Writer. It accepts all of b, and keeps the part that LogBytes
// leaves room for.
func (l *lineWriter) Write(b []byte) (int, error) {
	n := len(b)
	l.env.meter.Charge(1 + int64(n)/callmeter.BytesPerInstruction)
	if l == &l.env.errors {
		l.env.keepPanicText(b)
	}
	b = b[:min(n, max(0, l.env.host.LogRoom()-len(l.line)))]
	if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
		l.env.host.Log(l.level, append(l.line, b[:i]...))
		l.line = append(l.line[:0], b[i+1:]...)
	} else {
		l.line = append(l.line, b...)
	}
	if len(l.line) > maxLogLine {
		l.flush()
	}
	return n, nil
}

// flush logs a line that has not ended.
func (l *lineWriter) flush() {
	if len(l.line) > 0 {
		l.env.host.Log(l.level, l.line)
		l.line = nil
	}
}

var (
	_ io.Reader = (*Env)(nil)
	_ io.Writer = (*lineWriter)(nil)
)
