package soak

import (
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"
)

// A Turn is a turn as its client knows it. Times are since the ledger was made.
type Turn struct {
	Name     string // no other turn has it, and its run has the same
	Thread   string
	Durable  bool
	Repeated bool // its tool is idempotent and may be called again, under the same key

	Asked time.Duration // before the request was sent
	Begun bool          // a host said that the run has begun
	Acked time.Duration // after a host said that it was completed; 0 if none did
	Ended string        // how else a host said that it ended: its status and its code
	Why   string        // the error that it gave
}

// An Effect is a call of a tool, as it arrived at the ledger.
type Effect struct {
	Turn string
	Key  string // the idempotency key
	Host string
	At   time.Duration
}

// A Ledger notes, outside of the hosts, the turns and effects that they must not lose. It is safe for concurrent use.
type Ledger struct {
	began time.Time

	mu      sync.Mutex
	turns   map[string]*Turn
	effects []Effect
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger { return &Ledger{began: time.Now(), turns: map[string]*Turn{}} }

// Ask notes that a turn is about to be asked for.
func (l *Ledger) Ask(t Turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.Asked = time.Since(l.began)
	l.turns[t.Name] = &t
}

// Note changes the record of a turn.
func (l *Ledger) Note(name string, change func(t *Turn)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l.turns[name])
}

// Ack notes that a host said that a turn was completed.
func (l *Ledger) Ack(name string) {
	l.Note(name, func(t *Turn) { t.Acked = time.Since(l.began) })
}

// Acked returns the number of turns that a host said were completed.
func (l *Ledger) Acked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, t := range l.turns {
		if t.Acked > 0 {
			n++
		}
	}
	return n
}

// Turns returns all turns in the order in which they were asked for.
func (l *Ledger) Turns() []Turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Turn, 0, len(l.turns))
	for _, t := range l.turns {
		out = append(out, *t)
	}
	slices.SortFunc(out, func(a, b Turn) int { return int(a.Asked - b.Asked) })
	return out
}

// Effects returns all effects in the order of their arrival.
func (l *Ledger) Effects() []Effect {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.effects)
}

// ServeHTTP takes an effect as JSON, and answers when it is noted.
func (l *Ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var e Effect
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&e); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	l.mu.Lock()
	e.At = time.Since(l.began)
	l.effects = append(l.effects, e)
	l.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}
