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

// The index of the words of messages. What a commit adds to a log has an entry of
// the index, committed with it: which words its messages have, not which messages a
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

// searchable is the text of a message that it is found by: what was said, what tools
// answered, and data.
func searchable(m *host.Message) string {
	text := m.Text()
	var more strings.Builder
	for _, p := range m.Parts {
		said := ""
		switch p := p.(type) {
		case *host.ToolResult:
			said = p.ContentText()
		case *host.Data:
			said = string(p.Value)
		}
		if said != "" && more.Len() < MaxSearchedBytes {
			more.WriteString(said)
			more.WriteByte('\n')
		}
	}
	switch {
	case more.Len() == 0:
	case text == "":
		text = strings.TrimSuffix(more.String(), "\n")
	default:
		text += "\n" + strings.TrimSuffix(more.String(), "\n")
	}
	if len(text) > MaxSearchedBytes {
		return strings.ToValidUTF8(text[:MaxSearchedBytes], "")
	}
	return text
}

// indexOf returns the index's entries of messages that follow each other from
// position seq on.
func (s *Store) indexOf(content string, seq uint64, messages []*host.Message) []kv.Write {
	var out []kv.Write
	first, entry := seq, []byte{indexFormat}
	for i, m := range messages {
		entry = s.appendWords(entry, m)
		if len(entry) >= indexEntryBytes || i == len(messages)-1 {
			out = append(out, kv.Put(wordsKey(content).WithUint(seq), entry))
			seq, entry = first+uint64(i)+1, []byte{indexFormat}
		}
	}
	return out
}

func (s *Store) appendWords(entry []byte, m *host.Message) []byte {
	counts, total := s.words.Count(searchable(m))
	hashes := map[uint32]int{}
	for stem, n := range counts {
		hashes[hashOf(stem)] += n
	}
	sorted := slices.Sorted(maps.Keys(hashes))
	sorted = sorted[:min(len(sorted), maxIndexedWords)]
	entry = binary.AppendUvarint(entry, uint64(total))
	entry = binary.AppendUvarint(entry, uint64(len(sorted)))
	for _, h := range sorted {
		entry = append(binary.BigEndian.AppendUint32(entry, h), byte(min(hashes[h], maxTimes)))
	}
	return entry
}

// indexWords adds to the draft what new messages are found by. What has no room
// is not found: it is more than a megabyte of one turn.
func (d *draft) indexWords(seq uint64, messages []*host.Message) {
	if d.tenant.store.searchDisabled {
		return
	}
	for _, w := range d.tenant.store.indexOf(d.thread.rec.Content, seq, messages) {
		if d.tx.takeRoom(len(w.Value)) {
			d.tx.add(w)
		}
	}
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
func (tn *Tenant) Reindex(ctx context.Context) (messages int, err error) {
	if tn.err != nil {
		return 0, tn.err
	}
	users, err := tn.contents(ctx, "")
	if err != nil {
		return 0, err
	}
	for _, id := range slices.Sorted(maps.Keys(users)) {
		n, err := tn.store.reindex(ctx, id, users[id][0].Moment)
		if messages += n; err != nil {
			return messages, err
		}
	}
	return messages, nil
}

func (s *Store) reindex(ctx context.Context, id string, t *Moment) (messages int, err error) {
	tx := kv.Tx{}
	flush := func() error {
		_, err := t.part.apply(ctx, tx)
		tx.Writes = nil
		return wrap(err, "index thread %q", t.rec.ID)
	}
	if err := t.part.remove(ctx, wordsKey(id)); err != nil {
		return 0, wrap(err, "index thread %q", t.rec.ID)
	}
	c := contentOf(id)
	for e, err := range t.part.all(ctx, kv.Range{Prefix: c.log()}) {
		if err != nil {
			return messages, wrap(err, "index thread %q", t.rec.ID)
		}
		log, err := t.log().decode(ctx, c, e)
		if err != nil {
			return messages, err
		}
		tx.Writes = append(tx.Writes, s.indexOf(id, log.first, log.messages)...)
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
