package foreign_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/foreign"
)

func call(log *bytes.Buffer, fn func(context.Context) (int, error)) *foreign.Call[int] {
	return &foreign.Call[int]{Who: "adapter", Name: "*x", Method: "Get", Run: "r1", Logger: slog.New(slog.NewTextHandler(log, nil)), Fn: fn}
}

func TestAFunctionThatEndsBadlyIsAnError(t *testing.T) {
	for name, fn := range map[string]func(context.Context) (int, error){
		"a panic":                  func(context.Context) (int, error) { panic("secret") },
		"the end of its goroutine": func(context.Context) (int, error) { runtime.Goexit(); return 0, nil },
		"an error that it returns": func(context.Context) (int, error) { return 0, fault.Errorf(fault.Internal, "adapter failed in Get") },
	} {
		var log bytes.Buffer
		_, err := call(&log, fn).Await(t.Context())
		if fault.CodeOf(err) != fault.Internal || err.Error() != "adapter failed in Get" {
			t.Errorf("%s: %v", name, err)
		}
		if said := strings.Contains(log.String(), "secret"); said != (name == "a panic") {
			t.Errorf("%s: the log has %q", name, log.String())
		}
	}
}

func TestAFunctionThatNeverReturnsIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		release, late := make(chan struct{}), make(chan int, 1)
		c := call(&log, func(context.Context) (int, error) { <-release; return 7, nil })
		c.Late = func(n int) { late <- n }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := c.Await(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second+foreign.Grace {
			t.Errorf("Await = %v after %v", err, time.Since(began))
		}
		if !strings.Contains(log.String(), "run=r1") {
			t.Errorf("the log has %q", log.String())
		}
		close(release)
		if n := <-late; n != 7 {
			t.Errorf("the late value is %d", n)
		}
	})
}

func TestAValueWithinTheGraceIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c := call(&bytes.Buffer{}, func(context.Context) (int, error) { time.Sleep(foreign.Grace / 2); return 7, nil })
		if n, err := c.Await(ctx); n != 7 || err != nil {
			t.Errorf("Await = %d, %v", n, err)
		}
	})
}

func TestEndedByToldApartFromOtherErrors(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tt := range map[string]struct {
		ctx  context.Context
		err  error
		want bool
	}{
		"a context that has not ended":      {t.Context(), context.Canceled, false},
		"the error of a context that has":   {canceled, context.Canceled, true},
		"an error without a code":           {canceled, errors.New("broken pipe"), true},
		"an error that says something else": {canceled, fault.Errorf(fault.NotFound, "no thread"), false},
	} {
		if got := foreign.EndedBy(tt.ctx, tt.err); got != tt.want {
			t.Errorf("%s: EndedBy = %t", name, got)
		}
	}
}

func TestAPanicSaysWhoseCodeItWas(t *testing.T) {
	defer func() {
		if p := recover(); p != `reducer "x": boom` {
			t.Errorf("the panic is %v", p)
		}
	}()
	_, _ = foreign.NamePanic(`reducer "x"`, func() (int, error) { panic("boom") })
}
