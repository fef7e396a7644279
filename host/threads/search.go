package threads

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/words"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads/internal/view"
)

// SearchOptions are the optional parts of a search.
type SearchOptions struct {
	// Limit is how many hits at most: [DefaultHits] if 0, up to [MaxHits].
	Limit int
	// Thread is the only thread to search; empty is all of the tenant's.
	Thread string
}

// Hit is a message that a search found.
type Hit struct {
	Thread string `json:"thread"`
	Title  string `json:"title,omitempty"` // of the thread
	// Branch is the open branch of the thread that shows the message, if its own line
	// does not.
	Branch  string    `json:"branch,omitempty"`
	Message string    `json:"message"` // its id
	Role    host.Role `json:"role"`
	Agent   string    `json:"agent,omitempty"`
	Time    time.Time `json:"time"`
	Score   float64   `json:"score"`
	// Snippet is what of the message is about the query, and Matches where words
	// of it are there, in bytes.
	Snippet string   `json:"snippet"`
	Matches [][2]int `json:"matches"`
}

// Search returns the messages of a tenant's threads that share words with a query,
// the best first by BM25, of equal ones the latest. A message is found by its texts,
// by what its tool results say, a string as it is and anything else as JSON, and by
// its data, together the first [MaxSearchedBytes] of them; not by reasoning, media,
// and the arguments of calls.
//
// What a thread's own line shows is found, and what its open branches show, those
// that turns can go on with ([Branch].Open), also if it was said in the thread that
// this one was forked from. What an edit, a deletion or a rewind took out of sight is
// not found. A message that several threads show, because one was forked from the
// other, is one hit. No words are no hits.
//
// The index is read once for each search, so one takes time with how much the
// tenant has said. Code invalid_argument for a limit beyond its bounds, not_found
// if there is no such thread as opts names.
func (tn *Tenant) Search(ctx context.Context, query string, opts *SearchOptions) ([]Hit, error) {
	if opts == nil {
		opts = &SearchOptions{}
	}
	limit := cmp.Or(opts.Limit, DefaultHits)
	if limit < 0 || limit > MaxHits {
		return nil, host.Errorf(host.InvalidArgument, "search threads: limit is %d, not 1 to %d", opts.Limit, MaxHits)
	}
	if tn.err != nil {
		return nil, tn.err
	}
	q := &search{words: tn.store.words, part: tn.part, stems: tn.store.words.Query(query, MaxQueryWords)}
	users, err := tn.contents(ctx, opts.Thread)
	if q.users = users; err != nil || len(q.stems) == 0 {
		return nil, err
	}
	if err := q.find(ctx); err != nil {
		return nil, err
	}
	return q.hits(ctx, limit)
}

// contents returns which threads show something of each content, those that it is
// the own one of first. With an id it is of that thread alone.
func (tn *Tenant) contents(ctx context.Context, id string) (map[string][]*user, error) {
	users := map[string][]*user{}
	add := func(t *Moment) error {
		lines, err := t.openLines(ctx)
		for _, line := range lines {
			for _, origin := range line.view.Origins {
				users[origin] = append(users[origin], line)
			}
			users[line.rec.Content] = slices.Insert(users[line.rec.Content], 0, line)
		}
		return err
	}
	if id != "" {
		t, err := tn.find(ctx, id)
		if err == nil {
			err = add(t)
		}
		return users, err
	}
	for e, err := range tn.part.all(ctx, kv.Range{Prefix: threadKeys, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return nil, wrap(err, "search threads")
		}
		rest, _ := e.Key.CutPrefix(threadKeys)
		name, _, _ := rest.CutString()
		t, err := tn.part.decodeThread(ctx, name, e)
		if err == nil {
			err = add(t)
		}
		if err != nil {
			return nil, err
		}
	}
	return users, nil
}

// user is a line of a thread: its own, or an open branch.
type user struct {
	*Moment
	branch string
}

// openLines returns the thread's own line and its open branches. A thread that has
// branches has contents for them.
func (t *Moment) openLines(ctx context.Context) ([]*user, error) {
	lines := []*user{{t, ""}}
	if t.rec.Heads == 0 {
		return lines, nil
	}
	unbranched, err := t.part.isEmpty(ctx, t.root().owned())
	if err != nil || unbranched {
		return lines, wrap(err, "read branches of thread %q", t.rec.ID)
	}
	for h, err := range t.lineage().all(ctx) {
		if err != nil {
			return lines, err
		}
		if !h.Own {
			continue
		}
		line, err := t.moment(ctx, h.Point)
		if err != nil {
			return lines, err
		}
		lines = append(lines, &user{line, branchID(h.number)})
	}
	return lines, nil
}

// search is one search.
type search struct {
	words words.Words
	part  partition
	stems []string
	users map[string][]*user // by content

	found []found
	have  []int  // how many messages have each stem
	all   int    // messages
	total uint64 // words of all
}

// found is a message that has words of the query.
type found struct {
	content string
	seq     uint64
	words   uint64
	times   []byte // of each stem
	score   float64
}

// find reads the index.
func (q *search) find(ctx context.Context) error {
	hashes := make([]uint32, len(q.stems))
	for i, stem := range q.stems {
		hashes[i] = hashOf(stem)
	}
	q.have = make([]int, len(q.stems))
	r := kv.Range{Prefix: wordsKeys, Limit: kv.MaxScanLimit}
	if len(q.users) == 1 {
		for content := range q.users {
			r.Prefix = wordsKey(content)
		}
	}
	for e, err := range q.part.all(ctx, r) {
		if err != nil {
			return wrap(err, "search threads")
		}
		rest, _ := e.Key.CutPrefix(wordsKeys)
		content, rest, _ := rest.CutString()
		first, _, ok := rest.CutUint()
		if q.users[content] == nil {
			continue // of what was left behind, or on its way out
		}
		messages, whole := readIndex(e.Value)
		if !ok || !whole {
			return damaged("the index of threads is damaged")
		}
		for i, m := range messages {
			q.look(content, first+uint64(i), m, hashes)
		}
	}
	mean := max(float64(q.total)/float64(max(q.all, 1)), 1)
	for i := range q.found {
		f := &q.found[i]
		for j, times := range f.times {
			if times > 0 {
				f.score += words.Score(words.IDF(q.all, q.have[j]), uint64(times), f.words, mean)
			}
		}
		f.score = words.Round(f.score)
	}
	return nil
}

func (q *search) look(content string, seq uint64, m indexedMessage, hashes []uint32) {
	q.all++
	q.total += m.words
	var times []byte
	for i, hash := range hashes {
		if n := m.times(hash); n > 0 {
			if times == nil {
				times = make([]byte, len(hashes))
			}
			times[i] = n
			q.have[i]++
		}
	}
	if times != nil {
		q.found = append(q.found, found{content: content, seq: seq, words: m.words, times: times})
	}
}

// hits reads the best of what was found, until there are enough that show.
func (q *search) hits(ctx context.Context, limit int) ([]Hit, error) {
	slices.SortFunc(q.found, func(a, b found) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.content, a.content), cmp.Compare(b.seq, a.seq))
	})
	hits := []Hit{}
	for i, f := range q.found {
		if len(hits) == limit {
			break
		}
		if i > 0 && f.content == q.found[i-1].content && f.seq == q.found[i-1].seq {
			continue // it is being indexed anew
		}
		hit, err := q.hit(ctx, f)
		if err != nil {
			return nil, err
		}
		if hit != nil {
			hits = append(hits, *hit)
		}
	}
	return hits, nil
}

// hit returns what was found as a hit; nil if no thread shows it, or it has none
// of the words: two may have one hash.
func (q *search) hit(ctx context.Context, f found) (*Hit, error) {
	for _, t := range q.users[f.content] {
		rank := uint64(slices.Index(append(t.view.Origins[:len(t.view.Origins):len(t.view.Origins)], t.rec.Content), f.content))
		if !t.messageList().Has(view.Position{Rank: rank, Seq: f.seq}) {
			continue
		}
		s, err := t.log().entryAt(ctx, contentOf(f.content), f.seq)
		if err != nil {
			return nil, err
		}
		m := s.messages[f.seq-s.first]
		snippet, matches := q.snippet(searchable(m))
		if len(matches) == 0 {
			return nil, nil
		}
		return &Hit{Thread: t.rec.ID, Title: t.rec.Title, Branch: t.branch, Message: m.ID, Role: m.Role, Agent: m.Agent, Time: m.CreatedAt,
			Score: f.score, Snippet: snippet, Matches: matches}, nil
	}
	return nil, nil
}

// snippet returns the part of a text that has the most different words of the
// query, and where they are in it.
func (q *search) snippet(text string) (string, [][2]int) {
	var spans []words.Span
	var which []int
	for stem, at := range q.words.Stems(text) {
		if i := slices.Index(q.stems, stem); i >= 0 {
			spans, which = append(spans, at), append(which, i)
		}
	}
	best, most := 0, 0
	for i := range spans {
		different := map[int]bool{}
		for j := i; j < len(spans) && spans[j].To-spans[i].From <= snippetBytes; j++ {
			different[which[j]] = true
		}
		if len(different) > most {
			best, most = i, len(different)
		}
	}
	if most == 0 {
		return "", nil
	}
	from, to := excerpt(text, spans[best].From)
	matches := [][2]int{}
	for _, at := range spans[best:] {
		if at.To <= to {
			matches = append(matches, [2]int{at.From - from, at.To - from})
		}
	}
	return text[from:to], matches
}

// excerpt returns the part of a text to show of what begins at a place: a little
// before it and the rest of a snippet after, cut between words.
func excerpt(text string, at int) (from, to int) {
	from = max(at-snippetBytes/8, 0)
	for from > 0 && from < at && !utf8.RuneStart(text[from]) {
		from++
	}
	if i := strings.IndexByte(text[from:at], ' '); from > 0 && i >= 0 {
		from += i + 1
	}
	to = min(from+snippetBytes+snippetBytes/8, len(text))
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to--
	}
	return from, to
}
