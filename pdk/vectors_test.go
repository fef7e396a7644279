package kits_test

// Scenario: the golden vectors by the line are those of the documents.

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the vectors' lines again")

//go:generate go test -run VectorLines -update

// A vectorLine is a case with its document as bytes, which every language can read
// as it stands; its README describes the fields.
type vectorLine struct {
	File     string `json:"file"`
	Name     string `json:"name"`
	Why      string `json:"why"`
	Kind     string `json:"kind"`
	Valid    bool   `json:"valid"`
	Error    string `json:"error,omitempty"`
	HostOnly bool   `json:"host_only,omitempty"`
	Base64   []byte `json:"base64"`
}

// deepFrom is how deep a document nests that is kept apart: what every reader reads
// is in vectors.jsonl.
const deepFrom = 101

// TestVectorLinesAreTheVectors holds vectors.jsonl and deep.jsonl to the cases in the
// other files.
func TestVectorLinesAreTheVectors(t *testing.T) {
	dir := filepath.Join("testdata", "vectors")
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files of vectors: %v", len(files), err)
	}
	written := map[string][]byte{}
	for _, file := range files {
		for _, line := range vectorLines(t, file) {
			to := "vectors.jsonl"
			if depth(line.Base64) >= deepFrom {
				to = "deep.jsonl"
			}
			written[to] = append(appendLine(t, written[to], line), '\n')
		}
	}
	for _, name := range []string{"vectors.jsonl", "deep.jsonl"} {
		path := filepath.Join(dir, name)
		if *update {
			if err := os.WriteFile(path, written[name], 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil || len(got) == 0 || !bytes.Equal(got, written[name]) {
			t.Errorf("%s (%d bytes, %v) is not what the vectors are (%d bytes); run: go generate ./pdk", path, len(got), err, len(written[name]))
		}
	}
}

// vectorLines reads the cases of a file.
func vectorLines(t *testing.T, file string) (lines []vectorLine) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name, Why, Kind, Error string
		Valid                  bool
		HostOnly               bool `json:"host_only"`
		JSON                   json.RawMessage
		Text                   *string
		Base64                 []byte
	}
	if err := json.Unmarshal(content, &cases); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	seen := map[string]bool{}
	for _, c := range cases {
		document := c.Base64
		switch {
		case c.JSON != nil:
			document = c.JSON
		case c.Text != nil:
			document = []byte(*c.Text)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if c.Name == "" || c.Kind == "" || document == nil || c.Valid == (c.Error != "") || seen[c.Name] {
			t.Errorf("%s: case %q lacks something, has an error and is valid, or is there twice", name, c.Name)
		}
		seen[c.Name] = true
		lines = append(lines, vectorLine{name, c.Name, c.Why, c.Kind, c.Valid, c.Error, c.HostOnly, document})
	}
	return lines
}

func appendLine(t *testing.T, dst []byte, line vectorLine) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(line); err != nil {
		t.Fatal(err)
	}
	return append(dst, bytes.TrimSpace(b.Bytes())...)
}

// depth is how deep the brackets of a document nest. Those in strings count too,
// which moves a document to the deep ones at worst.
func depth(document []byte) (deepest int) {
	open := 0
	for _, b := range document {
		switch b {
		case '{', '[':
			open++
			deepest = max(deepest, open)
		case '}', ']':
			open--
		}
	}
	return deepest
}
