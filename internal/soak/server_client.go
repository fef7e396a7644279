//go:build linux

package soak

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// The clients of the server.

// client has turns on threads of its own, one after the other, until stop. It leaves a
// thread whose durable run it did not see end: a turn that comes before a run has continued
// ends the run.
func (s *serverSoak) client(ctx context.Context, stop <-chan struct{}, own string, random *rand.Rand) {
	for turn, number := 0, 0; ; turn++ {
		if turn == turnsAThread {
			turn, number = 0, number+1
		}
		thread := fmt.Sprintf("%s-%d", own, number)
		select {
		case <-stop:
			return
		case <-ctx.Done():
			return
		default:
		}
		name := fmt.Sprintf("n%d", s.names.Add(1))
		switch kind := random.IntN(10); {
		case kind < 3:
			s.turn(ctx, thread, name, startBody{Target: "clerk"}, "application/json", false)
		case kind < 5:
			s.turn(ctx, thread, name, startBody{Target: "clerk"}, "text/event-stream", false)
		case kind < 6:
			s.turn(ctx, thread, name, startBody{Target: "clerk"}, "text/event-stream", true)
		case kind < 8:
			s.turn(ctx, thread, name, startBody{Target: "broken"}, "application/json", false)
		default:
			s.turn(ctx, thread, name, startBody{Target: "clerk", Durable: true}, "", false)
			if s.waits(thread) {
				turn, number = -1, number+1
			}
		}
	}
}

// waits reports whether a durable run of a thread was not seen to end.
func (s *serverSoak) waits(thread string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, turn := range s.pending {
		if strings.HasPrefix(turn, thread+" ") {
			return true
		}
	}
	return false
}

// startBody is the body of a request that starts a run.
type startBody struct {
	Text    string `json:"text"`
	Thread  string `json:"thread"`
	Target  string `json:"target"`
	Durable bool   `json:"durable,omitempty"`
}

// runBody is a run in an answer, or a problem.
type runBody struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Events int64  `json:"events"`
	Code   string `json:"code"`
	Error  *struct {
		Code string `json:"code"`
	} `json:"error"`
}

// turn has one turn. accept is what the client wants: the run when it has ended, its events,
// or, if it is empty, no more than that the run is accepted.
func (s *serverSoak) turn(ctx context.Context, thread, name string, body startBody, accept string, slow bool) {
	p := s.current()
	s.count(func(f *ServerFigures) { f.Requests++ })
	body.Text, body.Thread = askPrefix+name, thread
	resp, raw, err := s.ask(ctx, p, http.MethodPost, "/v1/runs", body, accept, slow)
	if err != nil {
		s.noAnswer(p, name, err)
		return
	}
	var run runBody
	if accept == "text/event-stream" && resp.StatusCode == http.StatusOK {
		s.endOfStream(thread, name, raw)
		return
	}
	if err := json.Unmarshal(raw, &run); err != nil {
		s.broke("turn %s: the answer %d is no JSON: %.200q", name, resp.StatusCode, raw)
		return
	}
	switch {
	case resp.StatusCode == http.StatusAccepted:
		if run.Events > 0 { // otherwise it waits, and nothing of it is stored
			s.mu.Lock()
			s.pending[run.ID] = thread + " " + name
			s.mu.Unlock()
		}
		s.follow(ctx, run.ID, 5)
	case resp.StatusCode != http.StatusOK:
		s.count(func(f *ServerFigures) { f.Refused++; f.Codes[fmt.Sprint(resp.StatusCode, " ", run.Code)]++ })
		if resp.StatusCode >= 500 && run.Code != "unavailable" && run.Code != "internal" && run.Code != "deadline_exceeded" || run.Code == "" {
			s.broke("turn %s: it is refused with %d %.300s", name, resp.StatusCode, raw)
		}
	default:
		s.ended(thread, name, &run, body.Target)
	}
}

// ended notes the end of a run.
func (s *serverSoak) ended(thread, name string, run *runBody, target string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case run.Status == "completed":
		s.figures.Acked++
		s.acked[name] = thread
	case run.Error != nil:
		s.figures.Codes["run "+run.Error.Code]++
		if target == "broken" {
			s.figures.Crashes++
		}
	default:
		s.figures.Codes["run "+run.Status]++
	}
}

// endOfStream notes how a stream of events ended.
func (s *serverSoak) endOfStream(thread, name string, raw []byte) {
	if !bytes.Contains(raw, []byte("event: run.finished")) {
		s.count(func(f *ServerFigures) { f.Cut++ })
		return
	}
	last := raw[bytes.LastIndex(raw, []byte("event: run.finished")):]
	run := runBody{Status: "failed"}
	if bytes.Contains(last, []byte(`"finish_reason":"stop"`)) {
		run.Status = "completed"
	}
	s.ended(thread, name, &run, "")
}

// noAnswer notes a request without an answer, which only a killed server may leave.
func (s *serverSoak) noAnswer(p *serverProcess, name string, err error) {
	if p.killed.Load() {
		s.count(func(f *ServerFigures) { f.Killed++ })
		time.Sleep(50 * time.Millisecond)
		return
	}
	select {
	case <-p.ended: // which is a promise of its own: see phase
	case <-time.After(time.Second):
		s.broke("turn %s: the server lives and does not answer: %v", name, err)
	}
}

// ask sends a request and reads its answer.
func (s *serverSoak) ask(ctx context.Context, p *serverProcess, method, path string, body any, accept string, slow bool) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	var in io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, nil, err
		}
		in = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, p.url+path, in)
	if err != nil {
		return nil, nil, err
	}
	req.GetBody = nil // a request that is sent twice would be two turns
	req.Header.Set("Authorization", "Bearer "+s.key)
	req.Header.Set("Content-Type", "application/json")
	if accept == "" && body != nil {
		req.Header.Set("Prefer", "respond-async")
	} else if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if !slow {
		raw, err := io.ReadAll(resp.Body)
		return resp, raw, err
	}
	var raw bytes.Buffer
	for {
		_, err := io.CopyN(&raw, resp.Body, slowPiece)
		if errors.Is(err, io.EOF) {
			return resp, raw.Bytes(), nil
		}
		if err != nil {
			return resp, raw.Bytes(), err
		}
		time.Sleep(slowPause)
	}
}

// follow asks for a durable run until it has ended, at most so many times.
func (s *serverSoak) follow(ctx context.Context, id string, times int) (known bool) {
	for i := range times {
		if i > 0 {
			time.Sleep(100 * time.Millisecond)
		}
		resp, raw, err := s.ask(ctx, s.current(), http.MethodGet, "/v1/runs/"+id, nil, "", false)
		var run runBody
		if err != nil || json.Unmarshal(raw, &run) != nil {
			continue
		}
		if known = resp.StatusCode == http.StatusOK; !known || run.Status == "running" {
			continue
		}
		s.mu.Lock()
		turn, began := s.pending[id]
		delete(s.pending, id)
		s.mu.Unlock()
		if thread, name, _ := strings.Cut(turn, " "); began {
			s.ended(thread, name, &run, "clerk")
		}
		return true
	}
	return known
}
