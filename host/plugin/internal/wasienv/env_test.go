package wasienv

import (
	"bytes"
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
	"github.com/agenthost/agenthost/host/plugin/internal/fairsched"
)

// fakeHost grants what it says and keeps what is noted and logged.
type fakeHost struct {
	clock, random bool
	noted         []string
	lines         []string
	room          int
}

func (h *fakeHost) Grants() (clock, random bool) { return h.clock, h.random }

func (h *fakeHost) Note(clock, random bool) {
	if clock {
		h.noted = append(h.noted, "clock")
	}
	if random {
		h.noted = append(h.noted, "random")
	}
}

func (h *fakeHost) Log(level int, text []byte) {
	h.lines = append(h.lines, string(rune('0'+level))+" "+string(text))
	h.room -= len(text)
}

func (h *fakeHost) LogRoom() int { return h.room }

type freeAccount struct{}

func (freeAccount) ChargeInstructions(int64, time.Time) error { return nil }

func newEnv(t *testing.T, h Host) *Env {
	t.Helper()
	shared := &callmeter.Host{Scheduler: fairsched.New(1, 1), Uninterruptible: fairsched.New(1, math.MaxInt)}
	flow, err := shared.Scheduler.Enter(t.Context(), "acme", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	m := callmeter.New(shared, "p", nil)
	m.SetPayer(callmeter.Payer{Tenant: "acme", Account: freeAccount{}, Flow: flow})
	m.Begin(&callmeter.Call{Context: context.Background(), Start: time.Now(), Timeout: time.Minute, Instructions: math.MaxInt64})
	e := New(h, &m, time.Now())
	e.Reset()
	return e
}

func TestClockIsVirtualUntilStartUpIsOverAndItIsGranted(t *testing.T) {
	h := &fakeHost{clock: true}
	e := newEnv(t, h)
	if s, ns := e.Walltime(); s != 1_735_689_600 || ns != 1_000_000 {
		t.Errorf("the first reading is %d s %d ns, want 1 ms after 2025-01-01", s, ns)
	}
	e.Sleep(int64(time.Hour))
	if got := e.Nanotime(); got != int64(time.Hour)+2*ClockStep || len(h.noted) > 0 {
		t.Errorf("after an hour of sleep the clock is at %d; noted: %q", got, h.noted)
	}
	e.EndStart(e.Elapsed())
	if got := e.Nanotime(); got < int64(time.Hour) || got > 2*int64(time.Hour) {
		t.Errorf("the real clock does not continue from the virtual one: %d", got)
	}
	if e.Nanotime(); !slices.Equal(h.noted, []string{"clock"}) {
		t.Errorf("noted: %q, want the clock once", h.noted)
	}
	e.Reset()
	if e.Nanotime(); !slices.Equal(h.noted, []string{"clock", "clock"}) {
		t.Errorf("noted: %q, want the clock once for each call", h.noted)
	}
	h.clock = false
	e.Reset()
	if got := e.Nanotime(); got != ClockStep || !e.ReadClock() {
		t.Errorf("without the grant the clock is at %d, want one step", got)
	}
}

func TestACallMayHaveAClockAndASeedOfItsOwn(t *testing.T) {
	e := newEnv(t, &fakeHost{})
	read := func() string {
		b := make([]byte, 16)
		_, _ = e.Read(b)
		return string(b)
	}
	usual := read()
	for name, c := range map[string]struct {
		clock time.Time
		seed  uint64
		want  int64 // seconds since 1970
	}{
		"neither":               {want: 1_735_689_600},
		"a clock":               {clock: time.Unix(2_000_000_000, 0), want: 2_000_000_000},
		"a seed":                {seed: 5, want: 1_735_689_600},
		"a clock before 1970":   {clock: time.Unix(-5, 0), want: 0},
		"a clock after its end": {clock: time.Unix(1<<40, 0), want: clockEnd / int64(time.Second)},
	} {
		e.Reset()
		e.SetOrigin(c.clock, c.seed)
		if got, _ := e.Walltime(); got != c.want {
			t.Errorf("%s: the clock starts at %d, want %d", name, got, c.want)
		}
		if e.Nanotime() != 2*ClockStep || e.Elapsed() != time.Duration(2*ClockStep) {
			t.Errorf("%s: two readings take %s", name, e.Elapsed())
		}
		if got := read(); (got == usual) != (c.seed == 0) {
			t.Errorf("%s: the random bytes are %x, without a seed %x", name, got, usual)
		}
	}
}

func TestRandomBytesAreTheSameInEachCallUnlessGranted(t *testing.T) {
	h := &fakeHost{}
	e := newEnv(t, h)
	read := func() []byte {
		t.Helper()
		e.Reset()
		b := make([]byte, 16)
		if n, err := e.Read(b); n != len(b) || err != nil {
			t.Fatalf("Read gives %d, %v", n, err)
		}
		return b
	}
	first := read()
	if again := read(); !bytes.Equal(first, again) {
		t.Errorf("two calls read %x and %x", first, again)
	}
	if some, real := e.ReadRandom(); !some || real {
		t.Errorf("ReadRandom gives %t and %t, want only fixed bytes", some, real)
	}
	h.random = true
	if other := read(); bytes.Equal(first, other) {
		t.Errorf("the granted bytes are the fixed ones")
	}
	if _, real := e.ReadRandom(); !real || !slices.Equal(h.noted, []string{"random"}) {
		t.Errorf("real bytes are not noted: %q", h.noted)
	}
}

func TestOutputIsLoggedByLines(t *testing.T) {
	h := &fakeHost{room: 100}
	e := newEnv(t, h)
	for _, text := range []string{"a", "b\nc\nd", "e"} {
		if n, err := e.Output().Write([]byte(text)); n != len(text) || err != nil {
			t.Fatalf("Write gives %d, %v", n, err)
		}
	}
	e.Flush()
	if _, err := e.Errors().Write([]byte(strings.Repeat("x", 200))); err != nil {
		t.Fatal(err)
	}
	e.Flush()
	if want := []string{"1 ab\nc", "1 de", "2 " + strings.Repeat("x", 94)}; !slices.Equal(h.lines, want) {
		t.Errorf("logged: %q, want %q", h.lines, want)
	}
}

func TestLastWordsAreTheLastPanicsFirstLine(t *testing.T) {
	e := newEnv(t, &fakeHost{room: 1000})
	for _, text := range []string{"warning\n", "panic: ", "one\n", "fatal error: ", "two\x1b\n", "goroutine 1\n"} {
		if _, err := e.Errors().Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if got := e.LastWords(); got != "fatal error: two" {
		t.Errorf("the last words are %q", got)
	}
	if e.Reset(); e.LastWords() != "" {
		t.Errorf("after Reset they are %q", e.LastWords())
	}
}
