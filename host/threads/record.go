package threads

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"time"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads/internal/tenantkv"
	"github.com/agenthost/agenthost/host/threads/internal/view"
)

// layout is the version of the records that this package stores, but for those that carry a
// later one.
const layout = tenantkv.Layout

// layoutOfViews is the version of records that must not be read without the view
// they name: a reader that knows no views would show deleted messages.
const layoutOfViews = 2

// layoutOfGroups is the version of records of threads whose index of ids has groups: a
// reader that knows none would not find messages by their ids, and store them again.
const layoutOfGroups = 3

// version is the first member of every record.
type version = tenantkv.Version

// record is a thread's own entry. It changes with every commit to the thread;
// its revision is what commits are guarded by.
type record struct {
	version
	ID      string    `json:"id"`
	Title   string    `json:"title,omitempty"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
	point
	Root     string   `json:"root,omitempty"`  // the content of its first head, if that is another
	Heads    uint64   `json:"heads,omitempty"` // how many heads were left behind
	Parent   *Parent  `json:"parent,omitempty"`
	Marker   *marker  `json:"marker,omitempty"` // of the reduced messages that Get returns
	Metadata Metadata `json:"metadata,omitempty"`
	IDs      *idState `json:"ids,omitempty"`   // nil if the index of ids has no groups
	Plain    string   `json:"plain,omitempty"` // the first digits of a state that has no states of providers
}

// point is a moment of a thread: the length of the log, the view of it, and the
// state and status that belong to it.
type point struct {
	Head     string `json:"head"`
	Messages uint64 `json:"messages"` // the log's length
	Turns    uint64 `json:"turns"`
	Last     string `json:"last,omitempty"` // the last turn's run
	Status   Status `json:"status,omitempty"`
	State    *Ref   `json:"state,omitempty"`
	Content  string `json:"content"`        // the id its content lies under
	View     uint64 `json:"view,omitempty"` // of that content; 0 is the whole log
	// How many messages and turns the view shows less than the log has; negative if it
	// shows more.
	HiddenMessages int64 `json:"hidden_messages,omitempty"`
	HiddenTurns    int64 `json:"hidden_turns,omitempty"`
}

func (p *point) shownMessages() int { return int(int64(p.Messages) - p.HiddenMessages) }
func (p *point) shownTurns() int    { return int(int64(p.Turns) - p.HiddenTurns) }

// layout returns the version of a record that has the point.
func (p *point) layout() int {
	if p.View > 0 {
		return layoutOfViews
	}
	return layout
}

// layout is that of the point, but that a reader must know of lineage and groups, too.
func (r *record) layout() int {
	if r.IDs != nil {
		return layoutOfGroups
	}
	return r.headLayout()
}

// headLayout returns the version of the entries that keep a point of the thread.
func (r *record) headLayout() int {
	if r.Heads > 0 {
		return layoutOfViews
	}
	return r.point.layout()
}

// root returns the id of the content that belongs to the thread for as long as
// it lives: its lineage and the index of its runs lie there.
func (r *record) root() string { return cmp.Or(r.Root, r.Content) }

// storedView is a view as a content keeps it.
type storedView struct {
	version
	view.View
}

// checkView refuses a view with more parts than one record should hold.
func checkView(id string, v view.View) error {
	if n := len(v.Origins); n > maxOrigins {
		return host.Errorf(host.ResourceExhausted, "thread %q goes back to %d others, more than %d", id, n, maxOrigins).
			WithHint("continue in a new thread with the messages that are to be kept")
	}
	if n := len(v.Messages) + len(v.Turns); n > MaxViewParts {
		return host.Errorf(host.ResourceExhausted, "thread %q has been cut into %d parts, more than %d", id, n, MaxViewParts).
			WithHint("continue in a new thread with the messages that are to be kept")
	}
	return nil
}

// Records that may carry later layouts.
func (*record) Newest() int         { return layoutOfGroups }
func (*storedSnapshot) Newest() int { return layoutOfViews }
func (*storedHead) Newest() int     { return layoutOfViews }
func (*storedView) Newest() int     { return layoutOfViews }

// Parent is where a thread was forked from.
type Parent struct {
	Thread string `json:"thread"`
	// Snapshot is the last turn that came with it; empty if none did.
	Snapshot string `json:"snapshot,omitempty"`
}

func (p *Parent) clone() *Parent {
	if p == nil {
		return nil
	}
	out := *p
	return &out
}

// Metadata are the values that an application keeps with a thread, by name.
type Metadata map[string]json.RawMessage

// clone returns metadata that shares nothing with m.
func (m Metadata) clone() Metadata {
	out := maps.Clone(m)
	for name, value := range out {
		out[name] = bytes.Clone(value)
	}
	return out
}

// check refuses metadata that could not be stored and read again.
func (m Metadata) check(id string) error {
	size := 0
	for name, value := range m {
		if !utf8.ValidString(name) || !utf8.Valid(value) || !json.Valid(value) {
			return host.Errorf(host.InvalidArgument, "metadata %q of thread %q is not JSON", name, id)
		}
		size += len(name) + len(value)
	}
	if size > MaxMetadataBytes {
		return host.Errorf(host.ResourceExhausted, "metadata of thread %q is %d bytes, more than %d", id, size, MaxMetadataBytes).
			WithHint("keep large things as artifacts")
	}
	return nil
}

// merge returns m with the members of changes, copied; null removes one.
func (m Metadata) merge(changes Metadata) Metadata {
	if len(changes) == 0 {
		return m
	}
	out := maps.Clone(m)
	if out == nil {
		out = Metadata{}
	}
	for name, value := range changes {
		if string(value) == "null" {
			delete(out, name)
			continue
		}
		out[name] = bytes.Clone(value)
	}
	return out
}

func checkTitle(id, title string) error {
	if len(title) > MaxTitleBytes || !utf8.ValidString(title) {
		return host.Errorf(host.InvalidArgument, "title of thread %q is not UTF-8 of at most %d bytes", id, MaxTitleBytes)
	}
	return nil
}

// titleOf returns the title that a first input gives a thread.
func titleOf(m *host.Message) string {
	n := 0
	text := m.Text()
	for i := range text {
		if n++; n > MaxTitleRunes {
			return text[:i]
		}
	}
	return text
}
