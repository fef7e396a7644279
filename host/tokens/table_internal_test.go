// Inside the package, because the tables that it embeds cannot be seen from outside.

package tokens

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pkoukk/tiktoken-go-loader/assets"
)

var writeTables = flag.Bool("tables", false, "write the tables of the vocabularies")

const (
	// maxTokenBytes bounds a token; the longest of the four vocabularies
	// (runs of spaces, dashes, equals signs) have 128.
	maxTokenBytes = 128

	// maxRank bounds a vocabulary, at five times the size of the largest; a packed slot
	// has room for it.
	maxRank = 1_000_000

	// load is the share of slots that are taken, in percent. A table of 40
	// is no faster to count with, as what it saves in probes it loses in
	// the processor's caches, and slower to fill.
	load = 65
)

// vocabularyNodes are the numbers of beginnings, of two bytes and more, that the tokens of
// a vocabulary have.
var vocabularyNodes = map[string]int{O200kBase: 421_404, Cl100kBase: 216_493, P50kBase: 97_791, R50kBase: 97_767}

// TestTablesAreThoseOfTiktoken fills the table of each vocabulary and compares every byte
// with the one of the program.
func TestTablesAreThoseOfTiktoken(t *testing.T) {
	t.Parallel()
	for _, spec := range ownVocabulary() {
		t.Run(spec.name, func(t *testing.T) {
			t.Parallel()
			f, err := assets.Assets.Open(spec.name + ".tiktoken")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			built, err := buildTable(f, vocabularyNodes[spec.name])
			if err != nil {
				t.Fatalf("buildTable(%q): %v", spec.name, err)
			}
			if built.free != 0 {
				t.Errorf("%s: %d nodes more than its tokens have", spec.name, built.free)
			}
			got := built.pack()
			if *writeTables {
				if err := os.WriteFile(filepath.Join("tables", spec.name+".table"), got, 0o666); err != nil {
					t.Fatal(err)
				}
			} else if !bytes.Equal(got, spec.table) {
				t.Errorf("%s: the table is not that of the vocabulary; write it with: go test ./host/tokens -run TestTablesAreThoseOfTiktoken -tables", spec.name)
			}
		})
	}
}

// tableBuilder fills a table.
type tableBuilder struct {
	table
	free int // how many more nodes there may be
}

// buildTable reads a vocabulary in tiktoken's text form, a line a token: the
// base64 of its bytes, a space, its rank. It may have at most the given number
// of nodes.
func buildTable(r io.Reader, nodes int) (*tableBuilder, error) {
	hashed := nodes*100/load + 1
	t := &tableBuilder{table{make([]slot, firstHashed+hashed), uint64(hashed)}, nodes}
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
func (t *tableBuilder) insert(token []byte, rank int) error {
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
func (t *tableBuilder) check() error {
	for b := range 256 {
		if t.rank(byteNode(byte(b))) == 0 {
			return fmt.Errorf("byte %#02x is not a token", b)
		}
	}
	return nil
}

// pack returns the table as the program has it.
func (t *tableBuilder) pack() []byte {
	packed := binary.LittleEndian.AppendUint64(nil, uint64(len(t.slots)))
	for i := 0; i < len(t.slots); i += 64 {
		var taken uint64
		for bit, s := range t.slots[i:min(i+64, len(t.slots))] {
			if s != (slot{}) {
				taken |= 1 << bit
			}
		}
		packed = binary.LittleEndian.AppendUint64(packed, taken)
	}
	for _, s := range t.slots {
		if s != (slot{}) {
			if s.edge>>edgeBits != 0 || s.rank>>(8*packedSlot-edgeBits) != 0 {
				panic("a slot is too large to be packed")
			}
			packed = append(packed, binary.LittleEndian.AppendUint64(nil, uint64(s.edge)|uint64(s.rank)<<edgeBits)[:packedSlot]...)
		}
	}
	return packed
}

// bytesTable is a vocabulary of all single bytes.
func bytesTable() string {
	var text strings.Builder
	for b := range 256 {
		fmt.Fprintf(&text, "%s %d\n", base64.StdEncoding.EncodeToString([]byte{byte(b)}), b)
	}
	return text.String()
}

func TestVocabulariesWithFaultsAreRefused(t *testing.T) {
	t.Parallel()
	all := bytesTable()
	long := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("a", maxTokenBytes+1)))
	longer := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("a", 1000)))
	for _, row := range []struct{ name, text, want string }{
		{"no rank", all + "YWI=\n", "line 257: want a token and a rank"},
		{"not base64", all + "Y%I= 256\n", "line 257: decode token: "},
		{"an empty token", all + " 256\n", "line 257: token has 0 bytes, want 1 to 128"},
		{"a token too long", all + long + " 256\n", "line 257: token has 129 bytes, want 1 to 128"},
		{"a token far too long", all + longer + " 256\n", "line 257: token is longer than 128 bytes"},
		{"a rank that is no number", all + "YWI= x\n", `line 257: rank "x" is not a number up to`},
		{"a negative rank", all + "YWI= -1\n", `line 257: rank "-1" is not a number up to`},
		{"a rank out of reach", all + "YWI= 9999999\n", `line 257: rank "9999999" is not a number up to`},
		{"a token twice", all + "YWI= 256\nYWI= 257\n", `line 258: token "ab" is there twice`},
		{"too many nodes", all + "YWJjZGU= 256\n", "line 257: the vocabulary has more nodes than the table is made for"},
		{"a byte missing", strings.Replace(all, "YQ== 97\n", "", 1), "byte 0x61 is not a token"},
	} {
		_, err := buildTable(strings.NewReader(row.text), 3)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("buildTable of %s: %v, want %q", row.name, err, row.want)
		}
	}
	if _, err := buildTable(strings.NewReader(all+"\nYWJjZA== 256\n"), 3); err != nil {
		t.Errorf("buildTable of all bytes, a blank line and abcd: %v", err)
	}
}
