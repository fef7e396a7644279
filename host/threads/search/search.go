package search

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/internal/words"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/wordindex"
)

// The limits of a search.
const (
	// MaxHits is how many messages a search returns at most.
	MaxHits = 100
	// MaxTextBytes is how much of a message's text it is found by.
	MaxTextBytes = wordindex.MaxTextBytes

	defaultHits   = 10
	maxQueryWords = 32
	// snippetBytes is how much of a message a hit shows, about.
	snippetBytes = 160
)

// Options are the optional parts of a search.
type Options struct {
	// Limit is how many hits there are at most: 10 if it is 0, up to [MaxHits].
	Limit int
	// Thread is the only thread to search; empty is all of the tenant's.
	Thread string
}

// Hit is a message that a search found.
type Hit struct {
	Thread string `json:"thread"`
	Title  string `json:"title,omitempty"` // of the thread
	// Branch is the open branch of the thread that shows the message, if its main line
	// does not.
	Branch  string    `json:"branch,omitempty"`
	Message string    `json:"message"` // its id
	Role    host.Role `json:"role"`
	Agent   string    `json:"agent,omitempty"`
	Time    time.Time `json:"time"`
	Score   float64   `json:"score"`
	// Snippet is the part of the message's text that is about the query, and Matches
	// has the byte offsets in it of words of the query, each as from and to.
	Snippet string   `json:"snippet"`
	Matches [][2]int `json:"matches"`
}

// Searcher finds messages of a store's threads. Safe for concurrent use.
type Searcher struct {
	store *threads.Store
	words words.Words
}

// New returns a Searcher of a store's threads.
func New(store *threads.Store) *Searcher {
	w, _ := words.New("") // English is known
	return &Searcher{store, w}
}

// Messages returns the messages of a tenant's threads that share words with a query,
// the best first, of equal ones the latest. A query without words has no hits.
//
// A search finds the messages of each thread's main line and of its open branches,
// which accept turns ([threads.Branch].Open), also those of the thread that it was
// forked from. Messages that an edit, a deletion or a rewind took out of sight are not
// found. A message that several threads show, because one was forked from the other, is
// one hit.
//
// The index is read once for each search, so a search takes time in proportion to the
// words that the tenant has stored. Code invalid_argument for a limit that is negative
// or beyond [MaxHits] and for a name that no tenant can have, not_found if there is no
// such thread as opts names, data_loss if the index is damaged.
func (s *Searcher) Messages(ctx context.Context, tenant, query string, opts *Options) ([]Hit, error) {
	if opts == nil {
		opts = &Options{}
	}
	limit := cmp.Or(opts.Limit, defaultHits)
	if limit < 0 || limit > MaxHits {
		return nil, host.Errorf(host.InvalidArgument, "search threads: limit is %d, not 1 to %d", opts.Limit, MaxHits)
	}
	part, err := host.TenantPartition(tenant)
	if err != nil {
		return nil, err
	}
	q := &search{words: s.words, stems: s.words.Query(query, maxQueryWords), lines: map[string][]*threads.Moment{}}
	for line, err := range s.store.For(tenant).Lines(ctx, opts.Thread) {
		if err != nil {
			return nil, err
		}
		q.addLine(line)
	}
	if len(q.stems) == 0 {
		return nil, nil
	}
	if err := q.readIndex(ctx, s.store, part); err != nil {
		return nil, err
	}
	return q.hits(ctx, limit)
}

// search is one search.
type search struct {
	words words.Words
	stems []string
	lines map[string][]*threads.Moment // that show messages of a log, by its id

	candidates []candidate
	have       []int  // how many messages have each stem
	messages   int    // how many there are
	total      uint64 // how many words these have
}

// candidate is a message that has words of the query.
type candidate struct {
	log   string
	seq   uint64
	words uint64
	times []byte // how often it has each stem
	score float64
}

// addLine adds a conversation to those that are searched. The line that a log is the
// own one of is asked for its messages first.
func (q *search) addLine(line *threads.Moment) {
	logs := line.Logs()
	own := logs[len(logs)-1]
	for _, log := range logs[:len(logs)-1] {
		q.lines[log] = append(q.lines[log], line)
	}
	q.lines[own] = slices.Insert(q.lines[own], 0, line)
}

// readIndex reads the index of a tenant and scores the messages that have words of the
// query.
func (q *search) readIndex(ctx context.Context, store *threads.Store, partition string) error {
	hashes := make([]uint32, len(q.stems))
	for i, stem := range q.stems {
		hashes[i] = wordindex.Hash(stem)
	}
	q.have = make([]int, len(q.stems))
	if err := q.addLate(ctx, store, hashes); err != nil {
		return err
	}
	r := kv.Range{Prefix: wordindex.Keys, Limit: kv.MaxScanLimit}
	if len(q.lines) == 1 {
		for log := range q.lines {
			r.Prefix = wordindex.KeysOf(log)
		}
	}
	for e, err := range kv.All(ctx, store.Driver(), partition, r) {
		if err != nil {
			return kverror.Wrap(err, "search threads")
		}
		log, first, ok := wordindex.CutKey(e.Key)
		if q.lines[log] == nil {
			continue // of a head that was left behind, or of a thread that is being removed
		}
		if !ok {
			return damagedIndex()
		}
		if err := q.addEntry(log, first, e.Value, hashes); err != nil {
			return err
		}
	}
	mean := max(float64(q.total)/float64(max(q.messages, 1)), 1)
	for i := range q.candidates {
		c := &q.candidates[i]
		for j, times := range c.times {
			if times > 0 {
				c.score += words.Score(words.IDF(q.messages, q.have[j]), uint64(times), c.words, mean)
			}
		}
		c.score = words.Round(c.score)
	}
	return nil
}

// addLate counts the messages that are not in the index yet: of each line the question that
// a turn is about to answer.
func (q *search) addLate(ctx context.Context, store *threads.Store, hashes []uint32) error {
	for own, lines := range q.lines {
		log, entries, err := store.LateWords(ctx, lines[0])
		if err != nil {
			return err
		}
		for _, e := range entries {
			if log != own {
				continue
			}
			if err := q.addEntry(log, e.First, e.Value, hashes); err != nil {
				return err
			}
		}
	}
	return nil
}

// addEntry counts the messages of an entry of the index, which are in a log from position
// first on.
func (q *search) addEntry(log string, first uint64, entry []byte, hashes []uint32) error {
	messages, whole := wordindex.Read(entry)
	if !whole {
		return damagedIndex()
	}
	for i, m := range messages {
		q.addMessage(log, first+uint64(i), m, hashes)
	}
	return nil
}

func damagedIndex() error {
	return host.Errorf(host.DataLoss, "the index of threads is damaged").WithHint("restore it from a backup")
}

// addMessage counts a message of the index, which is a candidate if it has a stem of
// the query.
func (q *search) addMessage(log string, seq uint64, m wordindex.Message, hashes []uint32) {
	q.messages++
	q.total += m.Words
	var times []byte
	for i, hash := range hashes {
		if n := m.Times(hash); n > 0 {
			if times == nil {
				times = make([]byte, len(hashes))
			}
			times[i] = n
			q.have[i]++
		}
	}
	if times != nil {
		q.candidates = append(q.candidates, candidate{log: log, seq: seq, words: m.Words, times: times})
	}
}

// hits reads the best candidates until there are enough that a line shows.
func (q *search) hits(ctx context.Context, limit int) ([]Hit, error) {
	slices.SortFunc(q.candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.log, a.log), cmp.Compare(b.seq, a.seq))
	})
	hits := []Hit{}
	for i, c := range q.candidates {
		if len(hits) == limit {
			break
		}
		if i > 0 && c.log == q.candidates[i-1].log && c.seq == q.candidates[i-1].seq {
			continue // it was indexed since the lines were read, or the log is being indexed a second time
		}
		hit, err := q.hit(ctx, c)
		if err != nil {
			return nil, err
		}
		if hit != nil {
			hits = append(hits, *hit)
		}
	}
	return hits, nil
}

// hit returns a candidate as a hit; nil if no line shows it, or it has none of the
// words: two words may share a hash.
func (q *search) hit(ctx context.Context, c candidate) (*Hit, error) {
	for _, line := range q.lines[c.log] {
		m, err := line.MessageAt(ctx, c.log, c.seq)
		if err != nil {
			return nil, err
		}
		if m == nil {
			continue
		}
		snippet, matches := q.snippet(wordindex.Text(m))
		if len(matches) == 0 {
			return nil, nil
		}
		t := line.Thread()
		return &Hit{Thread: t.ID, Title: t.Title, Branch: line.Branch(), Message: m.ID, Role: m.Role, Agent: m.Agent, Time: m.CreatedAt,
			Score: c.score, Snippet: snippet, Matches: matches}, nil
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

// excerpt returns the part of a text to show around a match that begins at at: a
// little before it and the rest of a snippet after, cut between words.
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
