package nested_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host/nested"
)

func TestDeadlineEndsAfterItsTimeWithoutTheStoppedPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := nested.WithTimeout(t.Context(), time.Second)
		defer c.Cancel()
		child, cancel := context.WithTimeout(c, time.Hour)
		defer cancel()
		time.Sleep(900 * time.Millisecond)
		first, second := c.Stop(), c.Stop()
		time.Sleep(time.Minute)
		first()
		time.Sleep(time.Minute)
		second()
		time.Sleep(99 * time.Millisecond)
		synctest.Wait()
		if c.Err() != nil || child.Err() != nil {
			t.Fatalf("after 999 ms of its own time: %v, a context made of it: %v", c.Err(), child.Err())
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		for name, ctx := range map[string]context.Context{"it": c, "a context made of it": child} {
			<-ctx.Done()
			if err := ctx.Err(); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				t.Errorf("%s ended with %v, cause %v; want deadline exceeded", name, err, context.Cause(ctx))
			}
		}
	})
}

func TestDeadlineEndsWithItsParentAlsoWhileStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reason := errors.New("the run is over")
		parent, end := context.WithCancelCause(t.Context())
		c := nested.WithTimeout(parent, time.Second)
		start := c.Stop()
		end(reason)
		synctest.Wait()
		if err := c.Err(); !errors.Is(err, context.Canceled) || context.Cause(c) != reason {
			t.Errorf("it ended with %v, cause %v; want the parent's", err, context.Cause(c))
		}
		start()
		c.Cancel()
	})
}

func TestDeadlineThatHasPassedStaysPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := nested.WithTimeout(t.Context(), time.Second)
		defer c.Cancel()
		time.Sleep(time.Second)
		synctest.Wait()
		c.Stop()()
		if err := c.Err(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ended with %v, want deadline exceeded", err)
		}
	})
}
