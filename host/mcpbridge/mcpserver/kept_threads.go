package mcpserver

import (
	"iter"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// keptThreads are the threads that one session continues, by target. A nil one keeps none.
type keptThreads struct {
	mu sync.Mutex
	by map[string]string
}

// of returns the thread that the session continues with a target; "" is none.
func (k *keptThreads) of(target string) string {
	if k == nil {
		return ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.by[target]
}

// keep has the session continue a thread.
func (k *keptThreads) keep(target, thread string) {
	if k == nil || thread == "" {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.by == nil {
		k.by = map[string]string{}
	}
	k.by[target] = thread
}

// sessionThreads are the kept threads of sessions over HTTP, by the id of the session.
type sessionThreads struct {
	mu sync.Mutex
	by map[string]*keptThreads
}

// threadsOf returns the threads that the session of a message continues: those of its stream,
// or of its session over HTTP; nil for a client without a session.
func (e *endpoint) threadsOf(from *request, session *mcp.ServerSession) *keptThreads {
	if from.threads != nil {
		return from.threads
	}
	if !e.owner.opts.KeepThreads || session.ID() == "" {
		return nil
	}
	return e.threads.of(session.ID())
}

func (s *sessionThreads) of(session string) *keptThreads {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = map[string]*keptThreads{}
	}
	if s.by[session] == nil {
		s.by[session] = &keptThreads{}
	}
	return s.by[session]
}

// prune forgets the threads of sessions that have ended.
func (s *sessionThreads) prune(connected iter.Seq[*mcp.ServerSession]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.by) == 0 {
		return
	}
	alive := map[string]bool{}
	for session := range connected {
		alive[session.ID()] = true
	}
	for session := range s.by {
		if !alive[session] {
			delete(s.by, session)
		}
	}
}
