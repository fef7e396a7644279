// Package wordindex is the index of the words of messages.
//
// Messages that a commit adds to a log go in; entries come out that are committed with
// them ([Index.Entries]), and a search reads the entries again ([Read]). An entry says
// which words its messages have, not which messages a word has. So a turn writes one
// small value however many words it brings, no two threads meet in a key, and a search
// reads the index of a tenant once.
//
// The form of entries is part of stored data: a first byte, and of each message the
// number of its words, the number of its different words, and of each of these a hash
// and how often it comes, in the order of the hashes. Two words may share a hash: a
// search tells them apart when it reads the message.
package wordindex

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sort"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/words"
	"github.com/agenthost/agenthost/host/kv"
)

// MaxTextBytes is how much of a message's text it is found by.
const MaxTextBytes = 64 << 10

const (
	// format is the first byte of an entry.
	format = 0x01
	// wordBytes is the size of one word of a message: its hash and how often it comes.
	wordBytes = 4 + 1
	// maxTimes is how often a word counts in a message at most.
	maxTimes = 255
	// maxWords is by how many different words a message is found.
	maxWords = 4096
	// entryBytes is where an entry is full.
	entryBytes = 64 << 10
)

// Keys begin the keys of all entries of a tenant. Behind them are the id of a content,
// and the position of the entry's first message in the log of that.
var Keys = kv.NewKey("threads", "words")

// KeysOf returns the beginning of the keys of a content's entries.
func KeysOf(content string) kv.Key { return Keys.With(content) }

// CutKey returns the content and the position of an entry's first message.
func CutKey(key kv.Key) (content string, seq uint64, ok bool) {
	rest, _ := key.CutPrefix(Keys)
	content, rest, _ = rest.CutString()
	seq, _, ok = rest.CutUint()
	return content, seq, ok
}

// Hash returns a stem as entries have it.
func Hash(stem string) uint32 {
	const offset, prime = 2166136261, 16777619 // of FNV-1a
	h := uint32(offset)
	for i := range len(stem) {
		h = (h ^ uint32(stem[i])) * prime
	}
	return h
}

// Text returns the text that a message is found by, at most [MaxTextBytes] of it: its
// texts, the results of tools, and data.
func Text(m *host.Message) string {
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
		if said != "" && more.Len() < MaxTextBytes {
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
	if len(text) > MaxTextBytes {
		return strings.ToValidUTF8(text[:MaxTextBytes], "")
	}
	return text
}

// Index makes entries. Safe for concurrent use.
type Index struct{ words words.Words }

// New returns an index of words in English.
func New() *Index {
	w, _ := words.New("") // English is known
	return &Index{w}
}

// Entry is an entry of the index.
type Entry struct {
	First uint64 // position of the first message
	Value []byte
}

// Key returns the key of the entry in a tenant's partition.
func (e Entry) Key(content string) kv.Key { return KeysOf(content).WithUint(e.First) }

// Join returns the value of two entries whose messages follow each other.
func Join(a, b []byte) []byte { return append(slices.Clip(a), b[1:]...) }

// Entries returns the entries of messages that follow each other in the log of a
// content from position seq on.
func (x *Index) Entries(seq uint64, messages []*host.Message) []Entry {
	var out []Entry
	first, entry := seq, []byte{format}
	for i, m := range messages {
		entry = x.appendMessage(entry, m)
		if len(entry) >= entryBytes || i == len(messages)-1 {
			out = append(out, Entry{First: seq, Value: entry})
			seq, entry = first+uint64(i)+1, []byte{format}
		}
	}
	return out
}

func (x *Index) appendMessage(entry []byte, m *host.Message) []byte {
	counts, total := x.words.Count(Text(m))
	words := make([]hashed, 0, len(counts))
	for stem, n := range counts {
		words = append(words, hashed{Hash(stem), n})
	}
	words = merged(words)
	words = words[:min(len(words), maxWords)]
	entry = slices.Grow(entry, 2*binary.MaxVarintLen32+len(words)*wordBytes)
	entry = binary.AppendUvarint(entry, uint64(total))
	entry = binary.AppendUvarint(entry, uint64(len(words)))
	for _, w := range words {
		entry = append(binary.BigEndian.AppendUint32(entry, w.hash), byte(min(w.times, maxTimes)))
	}
	return entry
}

// hashed is how often the words of a hash come.
type hashed struct {
	hash  uint32
	times int
}

// merged sorts words by their hashes and joins those that share one.
func merged(words []hashed) []hashed {
	slices.SortFunc(words, func(a, b hashed) int { return cmp.Compare(a.hash, b.hash) })
	out := words[:0]
	for _, w := range words {
		if n := len(out); n > 0 && out[n-1].hash == w.hash {
			out[n-1].times += w.times
			continue
		}
		out = append(out, w)
	}
	return out
}

// Message is a message as an entry has it.
type Message struct {
	Words uint64 // how many there are
	table []byte // of the different ones
}

// Read returns the messages of an entry; ok is false if the entry is damaged.
func Read(raw []byte) (messages []Message, ok bool) {
	if len(raw) == 0 || raw[0] != format {
		return nil, false
	}
	for raw = raw[1:]; len(raw) > 0; {
		total, n := binary.Uvarint(raw)
		if n <= 0 {
			return nil, false
		}
		different, m := binary.Uvarint(raw[n:])
		if m <= 0 || different > maxWords || uint64(len(raw)-n-m) < different*wordBytes {
			return nil, false
		}
		raw = raw[n+m:]
		messages = append(messages, Message{total, raw[:different*wordBytes]})
		raw = raw[different*wordBytes:]
	}
	return messages, true
}

// Times returns how often the message has a word, at most 255.
func (m Message) Times(hash uint32) byte {
	n := len(m.table) / wordBytes
	i := sort.Search(n, func(i int) bool { return binary.BigEndian.Uint32(m.table[i*wordBytes:]) >= hash })
	if i == n || binary.BigEndian.Uint32(m.table[i*wordBytes:]) != hash {
		return 0
	}
	return m.table[i*wordBytes+4]
}
