package modelhttp_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// The connections of many runs at once are there for their next rounds. A
// transport as it comes keeps two.
func TestABurstKeepsItsConnections(t *testing.T) {
	const atOnce = 150
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			var opened, waiting atomic.Int32
			gate := make(chan chan struct{}, 1)
			gate <- make(chan struct{})
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				open := <-gate // the last of a burst lets all of it go
				if waiting.Add(1)%atOnce == 0 {
					close(open)
					gate <- make(chan struct{})
				} else {
					gate <- open
				}
				<-open
				text(events(w.hello...))(rw, r)
			}))
			srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					opened.Add(1)
				}
			}
			srv.Start()
			defer srv.Close()
			m := w.model(t, modelhttp.Options{BaseURL: srv.URL, MaxRetries: -1})
			for range 3 {
				var wg sync.WaitGroup
				for range atOnce {
					wg.Go(func() {
						if o := modeltest.Ask(t.Context(), m, modeltest.Question("hi")); o.Err != nil {
							t.Error(o.Err)
						}
					})
				}
				wg.Wait()
			}
			// A slow machine loses some: the end of an answer is waited for no longer
			// than drainGrace. With 64 that are kept it would be 322.
			if n := opened.Load(); n > atOnce*3/2 {
				t.Errorf("%d connections for 3 bursts of %d", n, atOnce)
			}
		})
	}
}
