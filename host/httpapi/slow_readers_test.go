package httpapi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/internal/testhost"
)

// Scenario: of two clients that follow a run one reads nothing.

// talked is how many pieces a talker's answer has, fewer than a registry keeps events, and
// talkedBytes are those of each.
const (
	talked      = 900
	talkedBytes = 4 << 10
)

// talker answers with more than the buffers of a connection hold.
type talker struct{ begin <-chan struct{} }

func (talker) Name() string { return "talker" }

func (m talker) Generate(ctx context.Context, _ *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		select {
		case <-m.begin:
		case <-ctx.Done():
			yield(llm.Chunk{}, ctx.Err())
			return
		}
		piece := strings.Repeat("x", talkedBytes)
		for range talked {
			if !yield(llm.Chunk{Text: piece}, nil) {
				return
			}
		}
		yield(llm.Chunk{Response: &llm.Response{FinishReason: chat.FinishStop, Parts: []host.Part{&host.Text{Text: "said"}}}}, nil)
	}
}

// narrowListener accepts connections that hold little, and on which the first bytes may take
// any time: until follows is set they have no deadline.
type narrowListener struct {
	net.Listener
	follows *atomic.Bool
}

func (l narrowListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	_ = c.(*net.TCPConn).SetWriteBuffer(talkedBytes)
	return narrowConn{c, l.follows}, nil
}

type narrowConn struct {
	net.Conn
	follows *atomic.Bool
}

func (c narrowConn) SetWriteDeadline(at time.Time) error {
	if !c.follows.Load() {
		at = time.Time{}
	}
	return c.Conn.SetWriteDeadline(at)
}

func TestAClientThatReadsNothingIsCutOffAlone(t *testing.T) {
	begin, left := make(chan struct{}), make(chan struct{})
	s := newServer(t, func(o *httpapi.Options) {
		a := testhost.NewAgent(t, "talker", &host.AgentOptions{Model: talker{begin}})
		o.Targets.(targets)["talker"] = a
		o.Observe = []httpapi.Observe{func(r *http.Request, _ string) (context.Context, func(int)) {
			return r.Context(), func(int) {
				if r.Header.Get("X-Request-Id") == "slow" {
					close(left)
				}
			}
		}}
	})
	var run httpapi.EndedRun
	s.do("acme", "POST", "/v1/runs", `{"target":"talker","text":"talk"}`, 202, &run, "Prefer", "respond-async")

	options := *s.options // the other client has more time, for it may be the machine that is slow
	options.Stream.WriteTimeout = time.Second
	hasty, err := httpapi.New(credential, &options)
	must(t, err)
	var follows atomic.Bool
	narrow := httptest.NewUnstartedServer(hasty)
	narrow.Listener = narrowListener{narrow.Listener, &follows}
	narrow.Start()
	defer narrow.Close()
	slow, err := net.Dial("tcp", narrow.Listener.Addr().String())
	must(t, err)
	defer slow.Close()
	must(t, slow.(*net.TCPConn).SetReadBuffer(talkedBytes))
	must(t, slow.SetDeadline(time.Now().Add(time.Minute)))
	_, err = fmt.Fprintf(slow, "GET /v1/runs/%s/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer acme\r\nX-Request-Id: slow\r\n\r\n", run.ID)
	must(t, err)
	_, err = io.ReadFull(slow, make([]byte, len("HTTP/1.1 200")))
	must(t, err)
	follows.Store(true)

	req, err := http.NewRequest("GET", s.URL+"/v1/runs/"+run.ID+"/events", nil)
	must(t, err)
	req.Header.Set("Authorization", "Bearer acme")
	resp, err := s.Client().Do(req)
	must(t, err)
	defer resp.Body.Close()
	close(begin)
	read, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.Contains(read, []byte("event: run.finished")) || len(read) < talked*talkedBytes {
		t.Errorf("the other client has read %d bytes, %v", len(read), err)
	}
	var ended httpapi.EndedRun
	s.do("acme", "GET", "/v1/runs/"+run.ID, "", 200, &ended)
	if ended.Status != runs.Completed {
		t.Errorf("the run is %s", ended.Status)
	}
	<-left
	rest, err := io.ReadAll(slow) // what the buffers of the connection have
	if bytes.Contains(rest, []byte("event: run.finished")) {
		t.Errorf("the client that read nothing has all %d bytes, %v", len(rest), err)
	}
}
