// Inside the package, because the vocabularies are built in and so all right.

package tokens

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// bytesTable is a vocabulary of all single bytes.
func bytesTable() string {
	var text strings.Builder
	for b := range 256 {
		fmt.Fprintf(&text, "%s %d\n", base64.StdEncoding.EncodeToString([]byte{byte(b)}), b)
	}
	return text.String()
}

func TestReadTableRefuses(t *testing.T) {
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
		_, err := readTable(strings.NewReader(row.text), 3)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("readTable of %s: %v, want %q", row.name, err, row.want)
		}
	}
	if _, err := readTable(strings.NewReader(all+"\nYWJjZA== 256\n"), 3); err != nil {
		t.Errorf("readTable of all bytes, a blank line and abcd: %v", err)
	}
	if _, err := loadTable("no.tiktoken", 3); err == nil {
		t.Error("loadTable of a file that is not there succeeds")
	}
}
