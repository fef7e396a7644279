package control

import (
	"bufio"
	"context"
	"encoding/json"
	"iter"
	"net"
	"time"

	"github.com/agenthost/agenthost/host/fault"
)

// Events is the result of a handler that sends events before its answer: each is sent
// when it happens, as {"event":...} on a line, and the answer follows the last one. When
// the client hangs up, or reads nothing for IdleTime, the handler's context ends and so
// does the loop over the events.
type Events iter.Seq2[json.RawMessage, error]

// Stream is [Call] for an operation that answers with [Events], and yields them. An
// error comes last: the host's, with its code and hint, or unavailable if the host hung
// up before the end. Leaving the loop hangs up.
func Stream(ctx context.Context, path, op string, args any) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		conn, err := ask(ctx, path, op, args)
		if err != nil {
			yield(nil, err)
			return
		}
		defer conn.Close()
		stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
		defer stop()
		lines := bufio.NewReader(conn)
		for {
			line, err := readLine(lines, MaxAnswerBytes)
			if err != nil {
				yield(nil, lost(ctx, path, err))
				return
			}
			var a answer
			if err := json.Unmarshal(line, &a); err != nil {
				yield(nil, notAnAnswer(path, err))
				return
			}
			if a.Event == nil {
				if a.Error != nil {
					yield(nil, a.Error)
				}
				return
			}
			if !yield(a.Event, nil) {
				return
			}
		}
	}
}

// stream sends events until they end, or the client hangs up.
func (s *Server) stream(conn net.Conn, lines *bufio.Reader, cancel context.CancelFunc, events Events) error {
	gone := make(chan struct{})
	_ = conn.SetReadDeadline(time.Time{})
	go func() {
		defer close(gone)
		if _, err := lines.Peek(1); err != nil {
			cancel()
		}
	}()
	defer func() {
		_ = conn.SetReadDeadline(time.Unix(1, 0)) // the client may ask for more: stop looking for that
		<-gone
	}()
	for ev, err := range events {
		_ = conn.SetWriteDeadline(time.Now().Add(IdleTime))
		a := answer{Event: ev}
		if err != nil {
			a = answer{Error: fault.AsError(err)}
		}
		if werr := write(conn, a); werr != nil || err != nil {
			return werr
		}
	}
	_ = conn.SetWriteDeadline(time.Now().Add(IdleTime))
	return write(conn, answer{Result: json.RawMessage("null")})
}
