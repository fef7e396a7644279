package tokens

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/pkoukk/tiktoken-go-loader/assets"
)

// A table is one vocabulary: which byte strings are tokens, and which rank each
// has. It is a trie whose edges live in one open-addressing hash table. The
// slot an edge lands in is the name of the node it leads to, so that 8 bytes
// describe a node completely.
//
// Beside a hash table of whole tokens it takes a fifth less memory and counts a
// third faster, since most strings looked up are no tokens, which shows after a
// byte or two; it loads in 35 ms instead of 20. A map[string]int takes four
// times the memory and four times as long to load.
//
// A table does not change once it is loaded.
type table struct {
	slots  []slot
	hashed uint64 // how many slots follow those of the single bytes
	free   int    // how many more nodes there may be
}

// A node is a byte string that begins some token: the index of its slot.
// Zero is no node, 1 to 256 are the single bytes.
type node uint32

// A slot is an edge of the trie and the node it leads to.
type slot struct {
	edge uint32 // parent<<8 | byte, 0 in a free slot
	rank uint32 // rank of the token that ends here plus one, 0 for a mere prefix
}

const (
	noNode      node = 0
	firstHashed      = 1 + 256 // slots below are the single bytes

	// maxTokenBytes bounds a token; the longest of the four vocabularies
	// (runs of spaces, dashes, equals signs) have 128.
	maxTokenBytes = 128

	// maxRank bounds a vocabulary, at five times the size of the largest.
	maxRank = 1_000_000

	// load is the share of slots that are taken, in percent. A table of 40
	// is no faster to count with, as what it saves in probes it loses in
	// the processor's caches, and slower to fill.
	load = 65

	// edgeHash spreads edges: 2^32 divided by the golden ratio.
	edgeHash = 0x9E3779B1
)

// loadTable reads the vocabulary embedded under the name file, which has the
// given number of nodes.
func loadTable(file string, nodes int) (*table, error) {
	f, err := assets.Assets.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readTable(f, nodes)
}

// readTable reads a vocabulary in tiktoken's text form, a line a token: the
// base64 of its bytes, a space, its rank. It may have at most the given number
// of nodes.
func readTable(r io.Reader, nodes int) (*table, error) {
	hashed := nodes*100/load + 1
	t := &table{
		slots:  make([]slot, firstHashed+hashed),
		hashed: uint64(hashed),
		free:   nodes,
	}
	var buf [maxTokenBytes + 2]byte // base64 announces up to two bytes more
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		token, rank, err := parseLine(buf[:], lines.Bytes())
		if err == nil {
			err = t.insert(token, rank)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return t, t.check()
}

// parseLine splits one line into the token, written to buf, and its rank.
func parseLine(buf, line []byte) (token []byte, rank int, err error) {
	text, number, ok := bytes.Cut(line, []byte(" "))
	if !ok {
		return nil, 0, errors.New("want a token and a rank")
	}
	if base64.StdEncoding.DecodedLen(len(text)) > len(buf) {
		return nil, 0, fmt.Errorf("token is longer than %d bytes", maxTokenBytes)
	}
	n, err := base64.StdEncoding.Decode(buf, text)
	if err != nil {
		return nil, 0, fmt.Errorf("decode token: %w", err)
	}
	if n == 0 || n > maxTokenBytes {
		return nil, 0, fmt.Errorf("token has %d bytes, want 1 to %d", n, maxTokenBytes)
	}
	rank, err = strconv.Atoi(string(number))
	if err != nil || rank < 0 || rank > maxRank {
		return nil, 0, fmt.Errorf("rank %q is not a number up to %d", number, maxRank)
	}
	return buf[:n], rank, nil
}

// insert adds a token.
func (t *table) insert(token []byte, rank int) error {
	at := byteNode(token[0])
	for _, b := range token[1:] {
		i, found := t.probe(at, b)
		if !found {
			if t.free--; t.free < 0 {
				return errors.New("the vocabulary has more nodes than the table is made for")
			}
			t.slots[i].edge = uint32(at)<<8 | uint32(b)
		}
		at = i
	}
	if t.slots[at].rank != 0 {
		return fmt.Errorf("token %q is there twice", token)
	}
	t.slots[at].rank = uint32(rank) + 1
	return nil
}

// check reports a byte that is no token, without which there are texts that
// cannot be written.
func (t *table) check() error {
	for b := range 256 {
		if t.rank(byteNode(byte(b))) == 0 {
			return fmt.Errorf("byte %#02x is not a token", b)
		}
	}
	return nil
}

// byteNode is the node of a single byte.
func byteNode(b byte) node { return node(b) + 1 }

// probe finds the slot of the edge from at by b, or the free slot where it
// would go.
func (t *table) probe(at node, b byte) (i node, found bool) {
	edge := uint32(at)<<8 | uint32(b)
	for i := t.home(edge); ; i++ {
		if i == uint32(len(t.slots)) {
			i = firstHashed
		}
		switch t.slots[i].edge {
		case edge:
			return node(i), true
		case 0:
			return node(i), false
		}
	}
}

// home is the slot where the search for an edge starts.
func (t *table) home(edge uint32) uint32 {
	return uint32(uint64(edge*edgeHash)*t.hashed>>32) + firstHashed
}

// extend follows text from a node; noNode means that no token has this prefix.
func (t *table) extend(at node, text string) node {
	for i := 0; i < len(text); i++ {
		next, found := t.probe(at, text[i])
		if !found {
			return noNode
		}
		at = next
	}
	return at
}

// find is the node of text, or noNode.
func (t *table) find(text string) node {
	return t.extend(byteNode(text[0]), text[1:])
}

// rank is the rank of the token at n plus one, or 0 if none ends there.
func (t *table) rank(n node) uint32 { return t.slots[n].rank }
