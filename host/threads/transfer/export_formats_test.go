package transfer_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/host/threads/transfer"
)

// exported is the form of FormatThread.
type exported struct {
	Format    string
	Version   int
	Thread    threads.Thread
	Messages  []*host.Message
	Snapshots []threads.Snapshot
	State     json.RawMessage
	Artifacts []*host.Artifact
}

func export(t *testing.T, s *threads.Store, format transfer.Format) string {
	t.Helper()
	var b bytes.Buffer
	if err := transfer.Export(t.Context(), s.For("acme"), "t1", format, &b); err != nil {
		t.Fatalf("Export(%q) = %v", format, err)
	}
	return b.String()
}

func TestExportOfEverything(t *testing.T) {
	s := threadtest.ExportStore(t)
	text := export(t, s, "")
	if text != export(t, s, transfer.FormatThread) {
		t.Error("the empty format is not FormatThread")
	}
	if strings.Contains(text, "acme") {
		t.Error("the export names the tenant")
	}
	var got exported
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("Export is not JSON: %v\n%s", err, text)
	}
	if got.Format != "agenthost.thread" || got.Version != 2 || got.Thread.ID != "t1" || got.Thread.Messages != 7 {
		t.Errorf("Export begins with %q version %d, %+v", got.Format, got.Version, got.Thread)
	}
	loaded, err := s.Get(t.Context(), &host.HistoryRequest{Tenant: "acme", Thread: "t1"})
	if err != nil {
		t.Fatal(err)
	}
	if want, have := chat.AppendMessagesJSON(nil, loaded.Messages), chat.AppendMessagesJSON(nil, got.Messages); !bytes.Equal(want, have) {
		t.Errorf("messages are %s, want %s", have, want)
	}
	if string(got.State) != `{"big":12345678901234567890}` || len(got.Snapshots) != 1 || got.Snapshots[0].ID != "r1" {
		t.Errorf("state %s, snapshots %+v", got.State, got.Snapshots)
	}
	if len(got.Artifacts) != 2 || got.Artifacts[0].Name != "label" || got.Artifacts[1].Name != "" {
		t.Errorf("artifacts %+v", got.Artifacts)
	}
}

func TestExportOfAnEmptyThread(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	if _, _, err := s.For("acme").Create(t.Context(), &threads.CreateOptions{ID: "t1"}); err != nil {
		t.Fatal(err)
	}
	var got exported
	if err := json.Unmarshal([]byte(export(t, s, transfer.FormatThread)), &got); err != nil {
		t.Errorf("Export is not JSON: %v", err)
	}
	if got := export(t, s, transfer.FormatOpenAI); got != "{\"messages\":[]}\n" {
		t.Errorf("Export = %q", got)
	}
	if got := export(t, s, transfer.FormatOpenAILines); got != "" {
		t.Errorf("Export = %q", got)
	}
}

func TestExportOpenAI(t *testing.T) {
	s := threadtest.ExportStore(t)
	lines := export(t, s, transfer.FormatOpenAILines)
	want := `{"role":"user","content":[{"type":"text","text":"Where is <order 1042> & \"co\"?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AQID"}},{"type":"image_url","image_url":{"url":"https://example.com/x.png"}},{"type":"input_audio","input_audio":{"data":"BA==","format":"mp3"}},{"type":"file","file":{"file_data":"data:application/pdf;base64,BQ=="}},{"type":"text","text":"https://example.com/x.pdf"},{"type":"text","text":"{\"page\":3}"}]}
{"role":"assistant","name":"clerk","content":"Let me look.","tool_calls":[{"id":"1","type":"function","function":{"name":"lookup","arguments":"{}"}},{"id":"2","type":"function","function":{"name":"lookup","arguments":"{}"}}]}
{"role":"tool","content":"{\"city\":\"Lyon\"}","tool_call_id":"1"}
{"role":"tool","content":"no such order","tool_call_id":"2"}
{"role":"assistant","content":null,"tool_calls":[{"id":"3","type":"function","function":{"name":"lookup","arguments":"{\"n\":12345678901234567890}"}}]}
{"role":"tool","content":"ok","tool_call_id":"3"}
{"role":"system","content":"Be brief."}
{"role":"assistant","content":""}
`
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("Export (-want +got):\n%s", diff)
	}
	object := export(t, s, transfer.FormatOpenAI)
	if want := `{"messages":[` + strings.ReplaceAll(strings.TrimSpace(lines), "\n", ",") + "]}\n"; object != want {
		t.Errorf("Export(openai) = %s, want the same messages as openai-jsonl", object)
	}
}

func TestExportRefuses(t *testing.T) {
	s := threadtest.ExportStore(t)
	err := transfer.Export(t.Context(), s.For("acme"), "t1", "xml", io.Discard)
	threadtest.WantCode(t, "Export", err, host.InvalidArgument)
	if !strings.Contains(err.Error(), "openai-jsonl") {
		t.Errorf("Export = %q, want it to name the formats", err)
	}
}

type brokenPipe struct{ left int }

var errPipe = errors.New("broken pipe")

func (p *brokenPipe) Write(b []byte) (int, error) {
	if p.left -= len(b); p.left < 0 {
		return 0, errPipe
	}
	return len(b), nil
}

func TestExportToABrokenPipe(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	threadtest.Fill(t, s, "t1", 1000)
	for _, format := range transfer.Formats() {
		for _, left := range []int{0, 10_000} {
			err := transfer.Export(t.Context(), s.For(""), "t1", format, &brokenPipe{left})
			if !errors.Is(err, errPipe) {
				t.Errorf("Export(%q) after %d bytes = %v, want the writer's error", format, left, err)
			}
		}
	}
}
