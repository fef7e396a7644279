package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/agenthost/agenthost/internal/termtext"
)

const (
	// CutMember is the name of the member of cut JSON that says how many elements
	// or members were left out. In a list it is the only member of the last element.
	CutMember = "left_out"

	maxCutDepth = 32  // of JSON that is cut: deeper objects and lists are left out whole
	minCutBytes = 128 // that an element or member is given, or it is left out
)

// CutJSON returns JSON of at most limit bytes that holds as much of raw as fits:
// long strings end with the number of bytes left out, long lists and objects with
// CutMember. raw is valid JSON and limit at least minCutBytes.
func CutJSON(raw []byte, limit int) []byte { return cutJSONAt(raw, limit, 0) }

func cutJSONAt(raw []byte, limit, depth int) []byte {
	raw = bytes.TrimSpace(raw)
	if len(raw) <= limit {
		return raw
	}
	switch raw[0] {
	case '{':
		return cutObject(raw, limit, depth)
	case '[':
		return cutList(raw, limit, depth)
	case '"':
		var s string
		_ = json.Unmarshal(raw, &s) // valid: see CutJSON
		return cutString(s, limit)
	}
	return cutString(string(raw), limit) // a number of many digits
}

// cutString returns s as a JSON string of at most limit bytes.
func cutString(s string, limit int) []byte {
	for keep := limit; ; keep /= 2 {
		if out := encodeJSON(CutText(s, keep)); len(out) <= limit {
			return out
		}
	}
}

// CutText returns at most keep bytes of s and the number of bytes left out.
func CutText(s string, keep int) string {
	if len(s) <= keep {
		return s
	}
	for keep > 0 && !utf8.RuneStart(s[keep]) {
		keep--
	}
	return fmt.Sprintf("%s… (%s bytes left out)", s[:keep], termtext.Thousands(int64(len(s)-keep)))
}

// cutList keeps elements from the start. An element is given a quarter of the room
// left, so that one large element does not hide all that follow it.
func cutList(raw []byte, limit, depth int) []byte {
	var list []json.RawMessage
	_ = json.Unmarshal(raw, &list)
	room := limit - len("[]") - len(leftOut(len(list)))
	out := []byte{'['}
	kept := 0
	for ; kept < len(list) && room/4 >= minCutBytes && depth < maxCutDepth; kept++ {
		e := cutJSONAt(list[kept], room/4, depth+1)
		out = append(append(out, e...), ',')
		room -= len(e) + 1
	}
	if kept < len(list) {
		return append(append(out, leftOut(len(list)-kept)...), ']')
	}
	return append(bytes.TrimSuffix(out, []byte{','}), ']')
}

func leftOut(n int) string { return fmt.Sprintf(`{"%s":%d}`, CutMember, n) }

// cutObject keeps members from the start. Small members are kept whole, and large
// ones share the room that these leave.
func cutObject(raw []byte, limit, depth int) []byte {
	names, values := jsonMembers(raw)
	room := limit - len(leftOut(len(names))) - len(",")
	kept := min(len(names), room/minCutBytes)
	if depth >= maxCutDepth {
		kept = 0
	}
	sizes := make([]int, kept)
	for i := range sizes {
		sizes[i] = len(names[i]) + len(values[i]) + len(`:,`)
	}
	share := fairShare(sizes, room)
	out := []byte{'{'}
	left := len(names) - kept
	for i := range kept {
		used := len(names[i]) + len(`:,`)
		if sizes[i] > share && share-used < minCutBytes/2 { // the name alone is too long
			left++
			continue
		}
		out = append(append(out, names[i]...), ':')
		out = append(append(out, cutJSONAt(values[i], max(share-used, 0), depth+1)...), ',')
	}
	if left > 0 {
		return append(out, leftOut(left)[1:]...)
	}
	return append(bytes.TrimSuffix(out, []byte{','}), '}')
}

// jsonMembers returns the members of an object in their order: names as JSON
// strings, and values.
func jsonMembers(raw []byte) (names, values [][]byte) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	_, _ = dec.Token()
	for dec.More() {
		var value json.RawMessage
		name, err := dec.Token()
		if err != nil || dec.Decode(&value) != nil {
			break
		}
		names, values = append(names, encodeJSON(name)), append(values, value)
	}
	return names, values
}

// fairShare returns the largest share such that sizes, each cut to it, fit room.
func fairShare(sizes []int, room int) int {
	low, high := 0, room
	for low < high {
		share, sum := (low+high+1)/2, 0
		for _, n := range sizes {
			sum += min(n, share)
		}
		if sum <= room {
			low = share
		} else {
			high = share - 1
		}
	}
	return low
}

// TextCut is how much of each list and of each value text shows.
type TextCut struct{ rows, Bytes int }

// textCuts are tried from the first until the text fits the limit. The last
// always does: there are fewer than 20 lists.
var textCuts = []TextCut{{8192, 4096}, {1024, 1024}, {256, 256}, {64, 128}, {16, 64}}

// CutRows returns how many of n rows are shown, and the number left out.
func (c TextCut) CutRows(n int) (shown, left int) {
	shown = min(n, c.rows)
	return shown, n - shown
}

// FitText returns the text of the first of textCuts that fits limit.
func FitText(limit int, write func(TextCut, *strings.Builder) error) (string, error) {
	for i, c := range textCuts {
		var b strings.Builder
		if err := write(c, &b); err != nil {
			return "", err
		}
		if b.Len() <= limit || i == len(textCuts)-1 {
			return b.String(), nil
		}
	}
	return "", nil
}
