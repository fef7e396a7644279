package threadtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/transfer"
)

// turnEntries is how many messages of a turn have entries of their own in the log.
const turnEntries = 256

// Fill gives a thread n messages in few commits.
func Fill(t testing.TB, s *threads.Store, thread string, n int) {
	t.Helper()
	for done := 0; done < n; {
		var messages []*host.Message
		for range min(n-done, turnEntries) {
			messages = append(messages, WithID(fmt.Sprintf("f%d", done+len(messages)), strings.Repeat("x", 100)))
		}
		Answer(t, s, thread, fmt.Sprintf("fill%d", done), "", messages...)
		done += len(messages)
	}
}

// ExportStore has a thread of every kind of part.
func ExportStore(t *testing.T) *threads.Store {
	t.Helper()
	s, _ := NewStore(t, nil)
	question := WithID("q", "Where is <order 1042> & \"co\"?")
	question.Parts = append(question.Parts,
		&host.Media{MediaType: "image/png", Data: []byte{1, 2, 3}},
		&host.Media{MediaType: "image/png", URL: "https://example.com/x.png"},
		&host.Media{MediaType: "audio/mpeg", Data: []byte{4}},
		&host.Media{MediaType: "application/pdf", Data: []byte{5}},
		&host.Media{MediaType: "application/pdf", URL: "https://example.com/x.pdf"},
		&host.Data{Value: json.RawMessage(`{"page":3}`)},
		&chat.Unknown{Kind: "hologram", JSON: json.RawMessage(`{"type":"hologram","x":1}`)})
	req := &host.HistoryRequest{Tenant: "acme", Thread: "t1", Run: "r1", Input: question}
	head, err := s.AppendUserMessage(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	asks := Calls("c", "1", "2")
	asks.Agent = "clerk"
	asks.Parts = append([]host.Part{&host.Reasoning{Text: "hm"}, &host.Text{Text: "Let me look."}}, asks.Parts...)
	bare := Calls("c2", "3")
	bare.Parts[0].(*host.ToolCall).Arguments = json.RawMessage(`{"n":12345678901234567890}`)
	results := host.NewMessage(host.ToolRole,
		&host.ToolResult{ID: "1", Name: "lookup", Content: json.RawMessage(`{"city":"Lyon"}`)},
		&host.ToolResult{ID: "2", Name: "lookup", Content: json.RawMessage(`"no such order"`), IsError: true})
	silent := host.NewMessage(host.Assistant, &host.Reasoning{Text: "nothing to say"})
	silent.Agent = "the clerk"
	note := host.NewMessage(host.System, &host.Text{Text: "Be brief."})
	turn := TurnOf(head, asks, results, bare, Result("3"), note, silent)
	turn.State = json.RawMessage(`{"big":12345678901234567890}`)
	turn.Artifacts = []host.Artifact{{Name: "label", Parts: []host.Part{&host.Text{Text: "Lyon"}}}, {Parts: []host.Part{&host.Data{Value: []byte("1")}}}}
	if err := s.AppendResults(t.Context(), req, turn); err != nil {
		t.Fatal(err)
	}
	return s
}

// ImportInto imports text into thread id of a tenant; an empty id is the file's.
func ImportInto(t testing.TB, s *threads.Store, tenant, id string, format transfer.Format, text string) (*transfer.Imported, error) {
	t.Helper()
	src, err := transfer.NewSource(format, strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	return transfer.Import(t.Context(), s.For(tenant), src, &transfer.ImportOptions{Thread: id})
}

// ExportOf returns a thread in a format.
func ExportOf(t testing.TB, s *threads.Store, tenant, id string, format transfer.Format) string {
	t.Helper()
	var b bytes.Buffer
	if err := transfer.Export(t.Context(), s.For(tenant), id, format, &b); err != nil {
		t.Fatalf("Export(%q) = %v", format, err)
	}
	return b.String()
}

// WantSame checks that two exports are of the same thread.
func WantSame(t testing.TB, want, got string) {
	t.Helper()
	want, got = WithoutHead(want), WithoutHead(got)
	if want == got {
		return
	}
	at := 0
	for at < min(len(want), len(got)) && want[at] == got[at] {
		at++
	}
	from := max(0, at-100)
	t.Fatalf("exports differ at byte %d:\nwant %.200s\ngot  %.200s", at, want[from:], got[from:])
}

// WithoutHead is an exported thread but for its head, which is new with every
// commit.
func WithoutHead(text string) string {
	before, rest, ok := strings.Cut(text, `"head":"`)
	_, after, _ := strings.Cut(rest, `"`)
	if !ok {
		return text
	}
	return before + after
}

// LongStore is a thread of everything, and turns with states.
func LongStore(t *testing.T) *threads.Store {
	t.Helper()
	s := ExportStore(t)
	for i := range 600 {
		req := &host.HistoryRequest{Tenant: "acme", Thread: "t1", Run: fmt.Sprint("more", i), Input: host.UserText("and?")}
		head, err := s.AppendUserMessage(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		turn := TurnOf(head, host.AssistantText("yes"))
		turn.State = fmt.Appendf(nil, `{ "n": %d, "html": "<b>" }`, i/3)
		if i == 17 {
			turn.Status, turn.Error = chat.FinishFailed, host.Errorf(host.Unavailable, "no model")
		}
		if err := s.AppendResults(t.Context(), req, turn); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// WantNoThread checks that an import that failed has left nothing.
func WantNoThread(t testing.TB, s *threads.Store, d kv.Driver, tenant string) {
	t.Helper()
	page, err := s.For(tenant).List(t.Context(), nil)
	if err != nil || len(page.Threads) > 0 {
		t.Fatalf("List = %+v, %v, want nothing", page, err)
	}
	if left := KeysUnder(t, d, tenant, kv.NewKey("threads")); len(left) > 0 {
		t.Fatalf("%d keys are left, %s first", len(left), left[0])
	}
}
