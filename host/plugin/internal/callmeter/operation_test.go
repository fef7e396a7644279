package callmeter

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// The context of an operation ends like one with a timer, whether or not
// something has waited for it before.
func TestUntimedContextEndsLikeOneWithATimer(t *testing.T) {
	for name, before := range map[string]func(context.Context){
		"looked at":  func(context.Context) {},
		"waited for": func(ctx context.Context) { ctx.Done() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				caller, leave := context.WithCancel(t.Context())
				defer leave()
				begin := func() *untimedContext {
					c := &untimedContext{Context: caller, at: time.Now().Add(time.Second)}
					before(c)
					return c
				}
				c := begin()
				if err := c.Err(); err != nil {
					t.Errorf("at its beginning: %v", err)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if err := c.Err(); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("after its deadline: %v", err)
				}
				<-c.Done()
				c.end()
				c = begin()
				c.end()
				if err := c.Err(); !errors.Is(err, context.Canceled) {
					t.Errorf("after its end: %v", err)
				}
				<-c.Done()
				c = begin()
				leave()
				if err := c.Err(); !errors.Is(err, context.Canceled) {
					t.Errorf("after its caller has left: %v", err)
				}
				<-c.Done()
				c.end()
			})
		})
	}
}
