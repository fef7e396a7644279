package threads

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
)

// The index of the words of messages. Each entry of a log has one entry of the
// index, committed with it: which words its messages have, not which messages a
// word has. So a turn writes one small value however many words it brings, no two
// threads meet in a key, and a search reads the index of the tenant once.

// indexFormat is the first byte of an entry of the index.
const indexFormat = 0x01

// Of each message, after the number of its words and of the different ones, each
// of these as a hash and how often it comes, in the order of the hashes.
const wordBytes = 4 + 1

// maxTimes is how often a word counts in a message at most.
const maxTimes = 255

// hashOf is a word as the index has it. What two words share is told apart when a
// message is read.
func hashOf(stem string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(stem))
	return h.Sum32()
}

// searchable is the text of a message that it is found by.
func searchable(m *host.Message) string {
	text := m.Text()
	if len(text) > MaxSearchedBytes {
		return strings.ToValidUTF8(text[:MaxSearchedBytes], "")
	}
	return text
}

// indexOf returns the index's entry of messages that an entry of the log has.
func (s *Store) indexOf(messages []*host.Message) []byte {
	out := []byte{indexFormat}
	for _, m := range messages {
		counts, total := s.words.Count(searchable(m))
		hashes := map[uint32]int{}
		for stem, n := range counts {
			hashes[hashOf(stem)] += n
		}
		sorted := slices.Sorted(maps.Keys(hashes))
		sorted = sorted[:min(len(sorted), maxIndexedWords)]
		out = binary.AppendUvarint(out, uint64(total))
		out = binary.AppendUvarint(out, uint64(len(sorted)))
		for _, h := range sorted {
			out = append(binary.BigEndian.AppendUint32(out, h), byte(min(hashes[h], maxTimes)))
		}
	}
	return out
}

// indexWords returns what a new entry of the log is found by, if it is kept and
// there is room for it: what has none is more than a megabyte of one turn.
func (d *draft) indexWords(seq uint64, messages []*host.Message) []kv.Write {
	if d.store.searchDisabled {
		return nil
	}
	entry := d.store.indexOf(messages)
	if !d.take(len(entry)) {
		return nil
	}
	return []kv.Write{kv.Put(wordsKey(d.rec.Content).WithUint(seq), entry)}
}

// indexedMessage is a message as the index has it.
type indexedMessage struct {
	words uint64 // how many
	table []byte // of the different ones
}

// readIndex takes an entry of the index apart; ok is false if it is damaged.
func readIndex(raw []byte) (messages []indexedMessage, ok bool) {
	if len(raw) == 0 || raw[0] != indexFormat {
		return nil, false
	}
	for raw = raw[1:]; len(raw) > 0; {
		words, n := binary.Uvarint(raw)
		if n <= 0 {
			return nil, false
		}
		different, m := binary.Uvarint(raw[n:])
		if m <= 0 || different > maxIndexedWords || uint64(len(raw)-n-m) < different*wordBytes {
			return nil, false
		}
		raw = raw[n+m:]
		messages = append(messages, indexedMessage{words, raw[:different*wordBytes]})
		raw = raw[different*wordBytes:]
	}
	return messages, true
}

// times returns how often a message has a word.
func (m indexedMessage) times(hash uint32) byte {
	n := len(m.table) / wordBytes
	i := sort.Search(n, func(i int) bool { return binary.BigEndian.Uint32(m.table[i*wordBytes:]) >= hash })
	if i == n || binary.BigEndian.Uint32(m.table[i*wordBytes:]) != hash {
		return 0
	}
	return m.table[i*wordBytes+4]
}

// Reindex makes the messages of a tenant's threads findable that were stored
// before there was an index, or by a store that keeps none, and returns how many
// it has read. It may run while others write.
func (s *Store) Reindex(ctx context.Context, tenant string) (messages int, err error) {
	part, err := partition(tenant)
	if err != nil {
		return 0, err
	}
	users, err := s.contents(ctx, part, "")
	if err != nil {
		return 0, err
	}
	for _, id := range slices.Sorted(maps.Keys(users)) {
		n, err := s.reindex(ctx, part, id, users[id][0])
		if messages += n; err != nil {
			return messages, err
		}
	}
	return messages, nil
}

func (s *Store) reindex(ctx context.Context, part, id string, t *thread) (messages int, err error) {
	tx := kv.Tx{Partition: part}
	flush := func() error {
		_, err := kv.Apply(ctx, s.driver, tx)
		tx.Writes = nil
		return wrap(err, "index thread %q", t.rec.ID)
	}
	c := contentOf(id)
	for e, err := range kv.All(ctx, s.driver, part, kv.Range{Prefix: c.log()}) {
		if err != nil {
			return messages, wrap(err, "index thread %q", t.rec.ID)
		}
		log, err := t.span(ctx, c, e)
		if err != nil {
			return messages, err
		}
		entry := s.indexOf(log.messages)
		if len(entry) > kv.MaxValueBytes {
			continue
		}
		tx.Writes = append(tx.Writes, kv.Put(wordsKey(id).WithUint(log.first), entry))
		messages += len(log.messages)
		if len(tx.Writes) == aheadWrites || tx.Size() >= aheadBytes {
			if err := flush(); err != nil {
				return messages, err
			}
		}
	}
	if len(tx.Writes) == 0 {
		return messages, nil
	}
	return messages, flush()
}
