package plugin

import (
	"bytes"
	"io"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/sys"

	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
)

// wasiEnv is a guest's WASI environment: a clock that moves 1 ms a reading and by the
// time slept, the same random bytes for every call, stdout and stderr into the log,
// and nothing else. With the permissions clock and random they are the real ones,
// the clock once start-up code has run.
type wasiEnv struct {
	call         *call
	now          int64  // virtual, nanoseconds since the epoch
	seed         uint64 // of the fixed random bytes
	clockNoted   bool   // the real time, once
	stderr       []byte // a panic's message
	unrestorable bool   // the guest has done what no image undoes, see keepsFiles
	realRandom   bool   // the guest has read real random bytes
	clock        bool   // the guest has read a clock
	random       bool   // the guest has read random bytes

	// Start-up code reads the virtual clock, also of a tenant that is granted the
	// real one: an image is of no time. After start-up the real clock continues
	// from the virtual time, so that monotonic time never goes back.
	startOver bool  // start-up
	startTook int64 // how far the virtual clock was then, in nanoseconds

	output, errors logWriter
}

const (
	wasiEpoch     = 1_735_689_600 * int64(time.Second) // when a virtual clock starts: 2025-01-01
	wasiClockStep = int64(time.Millisecond)

	// wasiClockEnd is where a virtual clock stops: in the year 2225.
	wasiClockEnd = wasiEpoch + 200*365*24*int64(time.Hour)
)

func (w *wasiEnv) reset() {
	w.now, w.seed = wasiEpoch, 0x9e3779b97f4a7c15
	w.stderr = w.stderr[:0]
}

// flush logs the guest's pending output.
func (w *wasiEnv) flush() {
	w.output.flush()
	w.errors.flush()
}

func (w *wasiEnv) config() wazero.ModuleConfig {
	w.output, w.errors = logWriter{env: w, level: 1}, logWriter{env: w, level: 2}
	cfg := wazero.NewModuleConfig().WithName("").WithStartFunctions().
		WithStdout(&w.output).WithStderr(&w.errors).
		WithNanosleep(w.sleep)
	return cfg.WithRandSource(w).
		WithWalltime(w.walltime, sys.ClockResolution(wasiClockStep)).
		WithNanotime(w.nanotime, sys.ClockResolution(wasiClockStep))
}

// endStart notes that start-up code has run, and how much virtual time it took.
func (w *wasiEnv) endStart(took int64) { w.startOver, w.startTook = true, took }

// tellsTime reports whether the guest may know the time. It is asked each time,
// since grants change while instances wait.
func (w *wasiEnv) tellsTime() bool {
	s := w.call.binding
	w.clock = true
	if !w.startOver || !s.rights().granted.Clock {
		return false
	}
	if !w.clockNoted {
		w.clockNoted = true
		s.usage.note(func(p *Permissions) { p.Clock = true })
	}
	return true
}

func (w *wasiEnv) walltime() (int64, int32) {
	if w.tellsTime() {
		now := time.Now()
		return now.Unix(), int32(now.Nanosecond())
	}
	w.now += wasiClockStep
	return w.now / int64(time.Second), int32(w.now % int64(time.Second))
}

func (w *wasiEnv) nanotime() int64 {
	if w.tellsTime() {
		return w.startTook + time.Since(w.call.binding.plugin.runtime.began).Nanoseconds()
	}
	w.now += wasiClockStep
	return w.now - wasiEpoch
}

// sleep moves the virtual clock. Nothing really waits: a guest cannot hold a
// thread. With a real clock it waits in pieces, so that deadlines hold.
func (w *wasiEnv) sleep(ns int64) {
	if ns <= 0 {
		return
	}
	if !w.tellsTime() {
		w.now = min(w.now+min(ns, int64(time.Hour)), wasiClockEnd)
		return
	}
	w.call.meter.Sleep(time.Duration(ns))
}

// randomPiece is how many random bytes are made between two looks at the deadline.
// It is a multiple of the eight that one step of splitmix64 makes.
const randomPiece = 64 << 10

// Read fills the beginning of b with random bytes: real ones if granted, the fixed
// ones of splitmix64 otherwise. WASI reads until it has what the guest asked for.
func (w *wasiEnv) Read(b []byte) (int, error) {
	w.call.meter.CheckTime()
	w.call.meter.YieldThread(time.Now())
	b = b[:min(len(b), randomPiece)]
	w.random = true
	if s := w.call.binding; s.rights().granted.Random {
		w.realRandom = true
		s.usage.note(func(p *Permissions) { p.Random = true })
		return cryptoRandom.Read(b)
	}
	for i := range b {
		if i%8 == 0 {
			w.seed += 0x9e3779b97f4a7c15
		}
		z := w.seed
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
		b[i] = byte(z >> (i % 8 * 8))
	}
	return len(b), nil
}

// maxLastWords bounds the part of stderr kept for an error's text.
const maxLastWords = 4 << 10

// lastWords returns the message of a Go guest's panic or fatal error, if it
// wrote one.
func (w *wasiEnv) lastWords() string {
	line, _, _ := strings.Cut(string(w.stderr), "\n")
	return strings.TrimSpace(clean(line))
}

// keepPanicText keeps stderr from the last "panic: " or "fatal error: " of a Go guest on. The
// Go runtime writes that prefix by itself, and then the message.
func (w *wasiEnv) keepPanicText(b []byte) {
	if bytes.HasPrefix(b, []byte("panic: ")) || bytes.HasPrefix(b, []byte("fatal error: ")) {
		w.stderr = w.stderr[:0]
	} else if len(w.stderr) == 0 {
		return
	}
	w.stderr = append(w.stderr, b[:min(len(b), maxLastWords-len(w.stderr))]...)
}

// logWriter sends a guest's stdout or stderr to its log by lines. A Go guest's
// panic, for one, is written a word at a time.
type logWriter struct {
	env   *wasiEnv
	level int
	line  []byte // begun
}

// maxLogLine bounds the part kept of a line that does not end.
const maxLogLine = 4 << 10

// Write implements io.Writer. It accepts all of b, and keeps the part that LogBytes
// leaves room for.
func (l *logWriter) Write(b []byte) (int, error) {
	c, n := l.env.call, len(b)
	c.meter.Charge(1 + int64(n)/callmeter.BytesPerInstruction)
	if l == &l.env.errors {
		l.env.keepPanicText(b)
	}
	b = b[:min(n, max(0, c.limits.LogBytes-c.logged-len(l.line)))]
	if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
		c.Log(l.level, append(l.line, b[:i]...))
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
func (l *logWriter) flush() {
	if len(l.line) > 0 {
		l.env.call.Log(l.level, l.line)
		l.line = nil
	}
}

var _ io.Writer = (*logWriter)(nil)
