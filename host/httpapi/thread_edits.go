package httpapi

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads"
)

// Moment names a moment of a thread: at most one of snapshot, turn and branch, and a message.
type Moment struct {
	Snapshot string `json:"snapshot,omitempty" description:"the thread right after that turn"`
	Turn     string `json:"turn,omitempty" description:"the present thread up to that turn"`
	Branch   string `json:"branch,omitempty" description:"a head that was left behind"`
	Message  string `json:"message,omitempty" description:"the conversation up to and with that message"`
	Before   bool   `json:"before,omitempty" description:"without that message"`
}

func (m *Moment) at() threads.At {
	return threads.At{Snapshot: m.Snapshot, Turn: m.Turn, Branch: m.Branch, Message: m.Message, Before: m.Before}
}

// NewFork is the body of POST /v1/threads/{thread}/forks.
type NewFork struct {
	ID       string           `json:"id,omitempty"`
	Title    string           `json:"title,omitempty"`
	Metadata threads.Metadata `json:"metadata,omitempty"`
	At       Moment           `json:"at,omitzero" description:"absent is now"`
}

// Branches is the answer of GET /v1/threads/{thread}/branches.
type Branches struct {
	Branches []*threads.Branch `json:"branches"`
	Next     string            `json:"next,omitempty" description:"the cursor of the next page; absent if this is the last"`
}

// maxBranches bounds the branches of one page.
const maxBranches = 1_000

// guard returns the condition of the header If-Match.
func (c *call) guard() (*threads.If, error) {
	tag := c.r.Header.Get("If-Match")
	if tag == "" {
		return nil, nil
	}
	head, opened := strings.CutPrefix(tag, `"`)
	head, closed := strings.CutSuffix(head, `"`)
	if !opened || !closed || head == "" || len(head) > maxHeaderBytes {
		return nil, host.Errorf(host.InvalidArgument, "If-Match is not the ETag of a thread: %.60q", tag).WithHint("send the ETag that GET /v1/threads/{thread} answers")
	}
	return &threads.If{Head: head}, nil
}

// changed answers with the thread after a change that If-Match may have guarded.
func (c *call) changed(guard *threads.If, t *threads.Thread, err error) error {
	if guard != nil && host.CodeOf(err) == host.Conflict {
		return &statusError{http.StatusPreconditionFailed, host.Errorf(host.Conflict, "the thread is not as If-Match has it: %w", err).WithHint("read the thread again, and send its ETag")}
	}
	if err != nil {
		return err
	}
	return c.answerThread(c.route.status, t)
}

// change is what the changes of a thread have in common: its id and their condition.
func (c *call) change() (id, message string, guard *threads.If, err error) {
	if id, err = c.thread(); err == nil {
		if message, err = c.path("message"); err == nil {
			guard, err = c.guard()
		}
	}
	return id, message, guard, err
}

func (h *threadHandlers) editMessage(c *call) error {
	var m host.Message
	if err := c.body(&m); err != nil {
		return err
	}
	id, message, guard, err := c.change()
	if err != nil {
		return err
	}
	if m.Role == host.System {
		return errNoSystem()
	}
	if err := c.audit.record(); err != nil {
		return err
	}
	t, err := h.tenant(c).EditMessage(c.ctx, id, message, &m, guard)
	return c.changed(guard, t, err)
}

func (h *threadHandlers) deleteMessage(c *call) error {
	id, message, guard, err := c.change()
	if err != nil {
		return err
	}
	if err := c.audit.record(); err != nil {
		return err
	}
	t, err := h.tenant(c).DeleteMessage(c.ctx, id, message, guard)
	return c.changed(guard, t, err)
}

func (h *threadHandlers) rewindThread(c *call) error {
	var in Moment
	if err := c.body(&in); err != nil {
		return err
	}
	id, _, guard, err := c.change()
	if err != nil {
		return err
	}
	if err := c.audit.record(); err != nil {
		return err
	}
	t, err := h.tenant(c).Rewind(c.ctx, id, in.at(), guard)
	return c.changed(guard, t, err)
}

func (h *threadHandlers) forkThread(c *call) error {
	var in NewFork
	if err := c.body(&in); err != nil {
		return err
	}
	id, err := c.thread()
	if err != nil {
		return err
	}
	key, err := h.prepareThread(c, &in)
	if err != nil {
		return err
	}
	fork := &threads.ForkOptions{ID: cmp.Or(in.ID, key.id("fork")), At: in.At.at(), Title: in.Title, Metadata: in.Metadata}
	t, err := h.tenant(c).Fork(c.ctx, id, fork)
	if (key.again || key.given() && in.ID == "") && host.CodeOf(err) == host.AlreadyExists {
		t, err = h.tenant(c).Thread(c.ctx, fork.ID)
	}
	if err != nil {
		return err
	}
	return h.answerNewThread(c, t)
}

func (h *threadHandlers) threadBranches(c *call) error {
	id, err := c.thread()
	if err != nil {
		return err
	}
	limit, err := c.query.limit(maxBranches)
	if err != nil {
		return err
	}
	answer := Branches{Branches: []*threads.Branch{}}
	for b, err := range h.tenant(c).BranchesFrom(c.ctx, id, c.query.text("cursor")) {
		if err != nil {
			return err
		}
		if len(answer.Branches) == limit {
			answer.Next = b.ID
			break
		}
		answer.Branches = append(answer.Branches, b)
	}
	return c.answer(answer)
}
