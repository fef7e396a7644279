package ui

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// glass is a terminal that many goroutines write to.
type glass struct {
	mu   sync.Mutex
	text strings.Builder
}

func (g *glass) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.Write(b)
}

func (g *glass) take() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.text.Reset()
	return g.text.String()
}

func TestLongWorkIsShownUntilSomethingIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &glass{}
		term := &Terminal{Out: g, Err: g, OutIsTerminal: true, ErrIsTerminal: true}
		term.DrawActivity()
		end := term.Working("build")
		time.Sleep(290 * time.Millisecond)
		if got := g.take(); got != "" {
			t.Errorf("short work shows %q", got)
		}
		time.Sleep(time.Second)
		if got := g.take(); !strings.HasSuffix(got, "\r\x1b[K… build  1.2s") {
			t.Errorf("long work shows %q", got)
		}
		term.Announce("link")
		time.Sleep(time.Second + time.Millisecond)
		if got := g.take(); !strings.HasSuffix(got, "… link  1s") && !strings.HasSuffix(got, "… link  900ms") {
			t.Errorf("renamed work shows %q", got)
		}
		_, _ = term.Out.Write([]byte("answer: "))
		if got := g.take(); got != "\r\x1b[Kanswer: " {
			t.Errorf("a write shows %q, want the work erased", got)
		}
		time.Sleep(time.Second)
		if got := g.take(); got != "" {
			t.Errorf("amid a line the work shows %q", got)
		}
		_, _ = term.Err.Write([]byte("done\n"))
		idle := term.Idle()
		g.take()
		time.Sleep(time.Second)
		if got := g.take(); got != "" {
			t.Errorf("a wait for a person shows %q", got)
		}
		idle()
		end()
		end()
		g.take()
		time.Sleep(time.Second)
		if got := g.take(); got != "" {
			t.Errorf("after its end the work shows %q", got)
		}
	})
}

func TestWithoutATerminalNoWorkIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, term := range map[string]*Terminal{"a file": {}, "a dumb terminal": {ErrIsTerminal: true, Dumb: true}} {
			g := &glass{}
			term.Out, term.Err = g, g
			term.DrawActivity()
			end := term.Working("build")
			time.Sleep(time.Minute)
			end()
			if got := g.take(); got != "" {
				t.Errorf("%s shows %q", name, got)
			}
		}
	})
}
