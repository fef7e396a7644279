package mcpclient

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
)

// The bounds of a search for tools.
const (
	maxFound       = 8
	maxFindQuery   = 1 << 10
	maxFindSummary = 200 // bytes of a description in a result
)

// findTool returns the tool with which a model finds those of a server that has too many to
// offer. A result of it has the host offer the tools that it names.
func (l *link) findTool(name string, defs []Definition) *host.Tool {
	index := newToolIndex(l.server, defs)
	about := fmt.Sprintf("Finds tools of the MCP server %s, which has %d. The tools that it names can be called from then on.", l.server.Name, len(defs))
	return host.NewTool(name, about, func(_ context.Context, _ *host.Call, in struct {
		Query string `json:"query" description:"a few words for the task at hand"`
	}) (llm.Findings, error) {
		return index.find(in.Query), nil
	}, &host.ToolOptions{ReadOnly: true, Idempotent: true})
}

// toolIndex ranks tools by the words of their names and descriptions.
type toolIndex struct {
	tools []indexedTool
	in    map[string]int // the number of tools with a word
}

type indexedTool struct {
	found llm.Finding
	words map[string]float64 // their weights: those of a name weigh more
}

func newToolIndex(server *Server, defs []Definition) *toolIndex {
	ix := &toolIndex{in: map[string]int{}}
	for _, d := range defs {
		t := indexedTool{llm.Finding{Name: server.toolName(d.Name), Description: plainLine(d.Description, maxFindSummary)}, map[string]float64{}}
		for _, w := range wordsOf(d.Description) {
			t.words[w] = 1
		}
		for _, w := range wordsOf(d.Name) {
			t.words[w] = 3
		}
		for w := range t.words {
			ix.in[w]++
		}
		ix.tools = append(ix.tools, t)
	}
	return ix
}

// find returns the tools that fit a query best, the best first.
func (ix *toolIndex) find(query string) llm.Findings {
	type hit struct {
		at    int
		score float64
	}
	words := wordsOf(query[:min(len(query), maxFindQuery)])
	var hits []hit
	for i, t := range ix.tools {
		score := 0.0
		for _, w := range words {
			score += t.words[w] * math.Log(1+float64(len(ix.tools))/float64(max(1, ix.in[w])))
		}
		if score > 0 {
			hits = append(hits, hit{i, score})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.score, a.score) })
	out := llm.Findings{Tools: []llm.Finding{}}
	for _, h := range hits[:min(len(hits), maxFound)] {
		out.Tools = append(out.Tools, ix.tools[h.at].found)
	}
	return out
}

// wordsOf returns the words of a text in small letters, also of names such as getUser or
// get_user; a plural loses its s.
func wordsOf(text string) []string {
	var spaced strings.Builder
	small := false
	for _, r := range text {
		if small && unicode.IsUpper(r) {
			spaced.WriteByte(' ')
		}
		small = unicode.IsLower(r)
		spaced.WriteRune(r)
	}
	words := strings.FieldsFunc(strings.ToLower(spaced.String()), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for i, w := range words {
		if len(w) > 3 {
			words[i] = strings.TrimSuffix(w, "s")
		}
	}
	slices.Sort(words)
	return slices.Compact(words)
}
