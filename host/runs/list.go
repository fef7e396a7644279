package runs

import (
	"cmp"
	"context"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
)

// The bounds of [ListRequest].Limit.
const (
	DefaultListLimit = 50
	MaxListLimit     = 1000
)

// ListRequest chooses runs of a tenant. An empty field excludes none.
type ListRequest struct {
	Tenant string `json:"tenant"`
	Thread string `json:"thread,omitempty"`
	Status Status `json:"status,omitempty"`
	Limit  int    `json:"limit,omitempty"`  // runs on the page (50), at most MaxListLimit
	Cursor string `json:"cursor,omitempty"` // [Page].Next of the page before
}

// Page is one page of runs: the last started first.
type Page struct {
	Runs []*Run `json:"runs"`
	Next string `json:"next,omitempty"` // the cursor of the next page; empty on the last
}

// List returns runs that are live, on any host of the cluster, and those that ended
// within Options.KeptFor. A host that does not answer is left out. A run that starts while pages are read is on none of the later pages. Code invalid_argument
// for an unknown status, a bad cursor and a limit that is negative or too high.
func (r *Registry) List(ctx context.Context, req *ListRequest) (*Page, error) {
	var own ListRequest
	if req != nil {
		own = *req
	}
	var err error
	if own.Tenant, err = r.host.Tenant(own.Tenant); err != nil {
		return nil, err
	}
	after, err := own.check()
	if err != nil {
		return nil, err
	}
	found, more := r.runs.list(&own, after), false
	if r.peers != nil {
		var others []*Run
		others, more = r.peers.list(ctx, &own)
		found = append(found, others...)
	}
	return pageOf(found, own.Limit, more), nil
}

// check validates a request, fills in its limit, and returns the position of its cursor.
func (req *ListRequest) check() (position, error) {
	switch {
	case req.Status != "" && !req.Status.valid():
		return position{}, host.Errorf(host.InvalidArgument, "list runs: there is no status %.40q", string(req.Status))
	case req.Limit < 0 || req.Limit > MaxListLimit:
		return position{}, host.Errorf(host.InvalidArgument, "list runs: the limit is %d, not from 1 to %d", req.Limit, MaxListLimit)
	}
	req.Limit = cmp.Or(req.Limit, DefaultListLimit)
	return readCursor(req.Cursor)
}

// pageOf sorts runs and returns the first of them as a page. more says that others were
// left out, behind limit runs of found.
func pageOf(found []*Run, limit int, more bool) *Page {
	slices.SortFunc(found, func(a, b *Run) int { return positionOf(a).compare(positionOf(b)) })
	if len(found) <= limit && !more {
		return &Page{Runs: found}
	}
	found = found[:limit]
	return &Page{Runs: found, Next: positionOf(found[limit-1]).cursor()}
}

// position is the place of a run in lists. The zero position is before all.
type position struct {
	started int64 // in nanoseconds
	id      string
}

func positionOf(info *Run) position { return position{info.Started.UnixNano(), info.ID} }

// compare orders the last started first.
func (p position) compare(q position) int {
	return cmp.Or(cmp.Compare(q.started, p.started), strings.Compare(q.id, p.id))
}

func (p position) isBefore(info *Run) bool {
	return p == position{} || p.compare(positionOf(info)) < 0
}

func (p position) cursor() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(p.started, 10) + " " + p.id))
}

func readCursor(cursor string) (position, error) {
	if cursor == "" {
		return position{}, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	started, id, ok := strings.Cut(string(raw), " ")
	at, numberErr := strconv.ParseInt(started, 10, 64)
	if err != nil || !ok || numberErr != nil {
		return position{}, host.Errorf(host.InvalidArgument, "list runs: there is no page %.100q", cursor).WithHint("use the cursor of the page before, unchanged")
	}
	return position{time.Unix(0, at).UnixNano(), id}, nil
}
