package threads

import (
	"context"
	"encoding/base64"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
)

// ListOptions say which threads to list.
type ListOptions struct {
	// Limit is how many at most: [DefaultListLimit] if 0, up to [MaxListLimit].
	Limit int
	// Cursor continues after a page: its Next.
	Cursor string
}

// Page is one page of a list of threads.
type Page struct {
	Threads []*Thread `json:"threads"`
	// Next is the cursor of the next page; empty if this is the last.
	Next string `json:"next,omitempty"`
}

// List returns a tenant's threads, the last updated first. A thread that is
// updated between two pages moves to the front, and is then not on a later page.
// Code invalid_argument for a negative or too large limit and for a cursor that
// no page had.
func (tn *Tenant) List(ctx context.Context, opts *ListOptions) (*Page, error) {
	if tn.write.read.err != nil {
		return nil, tn.write.read.err
	}
	r, err := listRange(opts)
	if err != nil {
		return nil, err
	}
	page := &Page{Threads: []*Thread{}}
	limit := r.Limit
	for {
		found, err := tn.write.read.part.Scan(ctx, r)
		if err != nil {
			return nil, wrap(err, "list threads")
		}
		for _, e := range found.Entries {
			if err := tn.write.read.addListed(ctx, e.Key, page); err != nil {
				return nil, err
			}
		}
		if !found.More {
			return page, nil
		}
		r = r.Next(found)
		if r.Limit = limit - len(page.Threads); r.Limit <= 0 {
			page.Next = cursorAfter(r.After)
			return page, nil
		}
	}
}

func listRange(opts *ListOptions) (kv.Range, error) {
	if opts == nil {
		opts = &ListOptions{}
	}
	r := kv.Range{Prefix: recentKeys, Reverse: true, Limit: opts.Limit}
	if opts.Limit < 0 || opts.Limit > MaxListLimit {
		return r, host.Errorf(host.InvalidArgument, "list of threads: limit is %d, not 1 to %d", opts.Limit, MaxListLimit).
			WithHint("read more with the cursor of the page")
	}
	if opts.Limit == 0 {
		r.Limit = DefaultListLimit
	}
	var err error
	r.After, err = readCursor(opts.Cursor)
	return r, err
}

// addListed adds the thread that an entry of the list names, unless it has been
// deleted since.
func (r threadReader) addListed(ctx context.Context, key kv.Key, page *Page) error {
	_, id, ok := cutRecent(key)
	if !ok {
		return damaged("list of threads is damaged")
	}
	t, err := r.open(ctx, id)
	if err == nil && t != nil {
		page.Threads = append(page.Threads, t.Thread())
	}
	return err
}

func cutRecent(key kv.Key) (updated uint64, id string, ok bool) {
	rest, ok := key.CutPrefix(recentKeys)
	if !ok {
		return 0, "", false
	}
	if updated, rest, ok = rest.CutUint(); !ok {
		return 0, "", false
	}
	id, rest, ok = rest.CutString()
	return updated, id, ok && rest == ""
}

// cursorAfter names a key of the list without saying more than a page does.
func cursorAfter(key kv.Key) string {
	rest, _ := key.CutPrefix(recentKeys)
	return base64.RawURLEncoding.EncodeToString([]byte(rest))
}

func readCursor(cursor string) (kv.Key, error) {
	if cursor == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	key := recentKeys + kv.Key(raw)
	if _, id, ok := cutRecent(key); err != nil || !ok || ValidateID(id) != nil {
		return "", host.Errorf(host.InvalidArgument, "list of threads: there is no cursor %.40q", cursor).
			WithHint("use the next of a page, or none to begin")
	}
	return key, nil
}
