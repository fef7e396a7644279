package transfer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/host/threads/transfer"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// hooked is a driver with a hook that runs before each Tx, and whose error is the Tx's.
type hooked struct {
	kv.Driver
	before func(kv.Tx) error
}

func (h *hooked) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	var results []kv.Result
	for _, tx := range txs {
		if h.before != nil {
			if err := h.before(tx); err != nil {
				results = append(results, kv.Result{Err: err})
				continue
			}
		}
		results = append(results, h.Driver.Commit(ctx, tx)...)
	}
	return results
}

var errDisk = errors.New("open /var/lib/secret/000001.vlog: input/output error")

func TestImportGivesWhatWasExported(t *testing.T) {
	text := threadtest.ExportOf(t, threadtest.LongStore(t), "acme", "t1", transfer.FormatThread)
	s, _ := threadtest.NewStore(t, nil)
	for round := range 2 {
		got, err := threadtest.ImportInto(t, s, "other", "", "", text)
		if err != nil {
			t.Fatalf("Import = %v", err)
		}
		if first := round == 0; got.Created != first || first && (got.Messages != 1207 || got.Turns != 601) || !first && got.Messages+got.Turns != 0 {
			t.Errorf("round %d: Import = %+v", round, got)
		}
		threadtest.WantSame(t, text, threadtest.ExportOf(t, s, "other", "t1", transfer.FormatThread))
	}
}

// A thread that was imported is a thread like others: turns go on, and a run
// that it has is not stored again.
func TestImportedThreadsGoOn(t *testing.T) {
	text := threadtest.ExportOf(t, threadtest.ExportStore(t), "acme", "t1", transfer.FormatThread)
	s, _ := threadtest.NewStore(t, nil)
	if _, err := threadtest.ImportInto(t, s, "", "copy", "", text); err != nil {
		t.Fatal(err)
	}
	threadtest.Answer(t, s, "copy", "r1", "", threadtest.WithID("again", "again"))
	if got := threadtest.Load(t, s, "copy"); len(got.Messages) != 7 || string(got.State) != `{"big":12345678901234567890}` {
		t.Errorf("a run that the thread has was stored again: %d messages, state %s", len(got.Messages), got.State)
	}
	threadtest.Talk(t, s, "copy", 1)
	if _, err := threadtest.ImportInto(t, s, "", "copy", "", text); err != nil {
		t.Errorf("import of a thread that has gone on: %v", err)
	}
	show, err := s.For("").Show(t.Context(), "copy", 0)
	if err != nil || len(show.Messages) != 9 || len(show.Artifacts) != 2 || show.Thread.Turns != 2 {
		t.Errorf("Show = %+v, %v", show.Thread, err)
	}
}

func TestImportOverAnotherConversation(t *testing.T) {
	text := threadtest.ExportOf(t, threadtest.ExportStore(t), "acme", "t1", transfer.FormatThread)
	s, _ := threadtest.NewStore(t, nil)
	threadtest.Talk(t, s, "t1", 1)
	before := threadtest.ExportOf(t, s, "", "t1", transfer.FormatThread)
	_, err := threadtest.ImportInto(t, s, "", "", "", text)
	threadtest.WantCode(t, "Import", err, host.AlreadyExists)
	if threadtest.ExportOf(t, s, "", "t1", transfer.FormatThread) != before {
		t.Error("the thread was changed")
	}
	s, _ = threadtest.NewStore(t, nil)
	for i, text := range []string{text, strings.Replace(text, `"id":"r1"`, `"id":"r2"`, 1), strings.Replace(text, `"name":"label"`, `"name":"seal"`, 1)} {
		if _, err := threadtest.ImportInto(t, s, "", "", "", text); (err == nil) != (i == 0) || i > 0 && host.CodeOf(err) != host.AlreadyExists {
			t.Errorf("Import %d = %v, want already_exists for all but the first", i, err)
		}
	}
}

// endless is a source that says how far it has been read.
type endless struct {
	n    int
	read int
	fail error
}

func (e *endless) Items() iter.Seq2[transfer.Item, error] {
	return func(yield func(transfer.Item, error) bool) {
		for e.read = 0; e.read < e.n; {
			e.read++
			m := host.UserText(fmt.Sprint("message ", e.read))
			m.ID, m.CreatedAt = "", time.Time{}
			if !yield(transfer.Item{Message: m}, nil) {
				return
			}
		}
		if e.fail != nil {
			yield(transfer.Item{}, e.fail)
		}
	}
}

// However long a thread is, what is read and not stored yet is bounded.
func TestImportHoldsNoThreadWhole(t *testing.T) {
	n := longtest.Rounds(2_000, 20_000)
	src, stored, most := &endless{n: n}, 0, 0
	d := &hooked{Driver: testdriver.New(t)}
	d.before = func(kv.Tx) error {
		most = max(most, src.read-stored)
		stored = src.read
		return nil
	}
	s := threads.New(d, nil)
	told := 0
	got, err := transfer.Import(t.Context(), s.For(""), src, &transfer.ImportOptions{Thread: "t1", Progress: func(n int) { told = n }})
	if err != nil || got.Messages != n || got.Thread.Messages != n || told != n || !got.Created {
		t.Fatalf("Import = %+v, %v, progress %d, want %d messages", got, err, told, n)
	}
	if most > 256 {
		t.Errorf("%d messages were held at once", most)
	}
	d.before = nil
	if got, err = transfer.Import(t.Context(), s.For(""), src, &transfer.ImportOptions{Thread: "t1"}); err != nil || got.Messages != 0 || got.Created {
		t.Errorf("Import again = %+v, %v, want nothing new", got, err)
	}
}

// A thread goes through a pipe from one store to another while it is read.
func TestThreadsAreMovedThroughAPipe(t *testing.T) {
	from, _ := threadtest.NewStore(t, nil)
	threadtest.Fill(t, from, "t1", 3000)
	to, _ := threadtest.NewStore(t, nil)
	for _, format := range transfer.Formats() {
		r, w := io.Pipe()
		go func() { w.CloseWithError(transfer.Export(t.Context(), from.For(""), "t1", format, w)) }()
		src, err := transfer.NewSource(format, r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := transfer.Import(t.Context(), to.For(""), src, &transfer.ImportOptions{Thread: "copy " + string(format)})
		if err != nil || got.Thread.Messages != 3000 {
			t.Errorf("Import(%s) = %+v, %v", format, got, err)
		}
		if threadtest.ExportOf(t, to, "", "copy "+string(format), transfer.FormatOpenAI) != threadtest.ExportOf(t, from, "", "t1", transfer.FormatOpenAI) {
			t.Errorf("%s: the copy is another conversation", format)
		}
	}
}

// An import whose process is killed leaves a part of the thread; the next one
// goes on with it.
func TestImportGoesOnAfterACrash(t *testing.T) {
	text := threadtest.ExportOf(t, threadtest.LongStore(t), "acme", "t1", transfer.FormatThread)
	for fails := 1; ; fails += 2 {
		memory := testdriver.New(t)
		d := &hooked{Driver: memory}
		left := fails
		d.before = func(kv.Tx) error { // the process is gone: nothing is written any more, and nothing cleaned up
			if left--; left < 0 {
				return kv.ErrClosed
			}
			return nil
		}
		_, err := threadtest.ImportInto(t, threads.New(d, nil), "acme", "", "", text)
		s := threads.New(memory, nil)
		if _, err := threadtest.ImportInto(t, s, "acme", "", "", text); err != nil {
			t.Fatalf("Import after %d commits of another = %v", fails, err)
		}
		threadtest.WantSame(t, text, threadtest.ExportOf(t, s, "acme", "t1", transfer.FormatThread))
		if err == nil {
			return
		}
		threadtest.WantCode(t, "Import", err, host.Unavailable)
	}
}

func TestImportGivesWayToOthers(t *testing.T) {
	d := &hooked{Driver: testdriver.New(t)}
	s := threads.New(d, nil)
	other := threads.New(d.Driver, nil)
	commits := 0
	d.before = func(kv.Tx) error {
		if commits++; commits == 3 {
			threadtest.Say(t, other, "t1", "r", threadtest.WithID("mine", "mine"))
		}
		return nil
	}
	_, err := transfer.Import(t.Context(), s.For(""), &endless{n: 2000}, &transfer.ImportOptions{Thread: "t1"})
	threadtest.WantCode(t, "Import", err, host.Conflict)
	got := threadtest.Load(t, other, "t1").Messages
	if len(got) != 257 || got[256].ID != "mine" {
		t.Errorf("the thread has %d messages, want those of one commit and the other's", len(got))
	}
}

func TestSourcesThatFailLeaveNothing(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	_, err := transfer.Import(t.Context(), s.For("acme"), &endless{n: 1000, fail: errDisk}, &transfer.ImportOptions{Thread: "t1"})
	if !errors.Is(err, errDisk) {
		t.Errorf("Import = %v, want the source's error", err)
	}
	threadtest.WantNoThread(t, s, d, "acme")
	ctx, cancel := context.WithCancel(t.Context())
	_, err = transfer.Import(ctx, s.For("acme"), &endless{n: 1000}, &transfer.ImportOptions{Thread: "t1", Progress: func(int) { cancel() }})
	threadtest.WantCode(t, "Import", err, host.Canceled)
	threadtest.WantNoThread(t, s, d, "acme")
}

func TestImportRefuses(t *testing.T) {
	whole := threadtest.ExportOf(t, threadtest.ExportStore(t), "acme", "t1", transfer.FormatThread)
	replace := func(old, new string) string {
		if !strings.Contains(whole, old) {
			t.Fatalf("the export does not have %s", old)
		}
		return strings.Replace(whole, old, new, 1)
	}
	head, _, _ := strings.Cut(whole, "\n\"messages\"")
	for name, c := range map[string]struct {
		text string
		want host.Code
		says string
	}{
		"nothing":            {"", host.InvalidArgument, "no known format"},
		"no JSON":            {"hello", host.InvalidArgument, "no known format"},
		"a newer version":    {replace(`"version":2`, `"version":3`), host.FailedPrecondition, "version 3"},
		"no version":         {replace(`"version":2,`, ``), host.InvalidArgument, `comes before "version"`},
		"a version of text":  {replace(`"version":2`, `"version":"2"`), host.InvalidArgument, "version"},
		"another format":     {replace("agenthost.thread", "thread"), host.InvalidArgument, "format"},
		"no messages":        {strings.TrimSuffix(strings.TrimSpace(head), ",") + "}", host.InvalidArgument, "messages"},
		"no id":              {replace(`"thread":{"id":"t1"`, `"thread":{"id":""`), host.InvalidArgument, "which thread"},
		"a NUL in the id":    {replace(`"thread":{"id":"t1"`, `"thread":{"id":"t\u0000"`), host.InvalidArgument, "control character"},
		"too long an id":     {replace(`"thread":{"id":"t1"`, `"thread":{"id":"`+strings.Repeat("x", 1000)+`"`), host.InvalidArgument, "1000 bytes"},
		"an unknown member":  {replace(`"version":2,`, `"version":2,"extra":2,`), host.InvalidArgument, "extra"},
		"a list of threads":  {"[" + whole + "]", host.InvalidArgument, "role"},
		"two threads":        {whole + whole, host.InvalidArgument, "more after the end"},
		"messages twice":     {replace(`"snapshots":[`, `"messages":[],"snapshots":[`), host.InvalidArgument, "order"},
		"an unknown role":    {replace(`"role":"user"`, `"role":"god"`), host.InvalidArgument, "message 0"},
		"a message twice":    {replace(`"snapshots":[`, `"snapshots":[`)[:0] + doubled(t, whole), host.InvalidArgument, "given twice"},
		"a turn too long":    {replace(`"to":7`, `"to":8`), host.InvalidArgument, "1 to 8 of 7"},
		"a turn backwards":   {replace(`"from":1`, `"from":9`), host.InvalidArgument, "9 to 7"},
		"a negative turn":    {replace(`"from":1`, `"from":-1`), host.InvalidArgument, "-1 to 7"},
		"a turn without id":  {replace(`"id":"r1"`, `"id":""`), host.InvalidArgument, "run has no id"},
		"a state that lacks": {replace(`"state_value":{"big":12345678901234567890}`, `"x":1`), host.InvalidArgument, "state of turn 1"},
		"a state of text":    {replace(`"state_value":{"big":12345678901234567890}`, `"state_value":"x"`), host.InvalidArgument, "state of turn r1"},
		"a state of nothing": {replace(`"state_value":{"big":12345678901234567890}`, `"state_value":[]`), host.InvalidArgument, "state of turn r1"},
		"a bad time":         {replace(`"created_at":"`, `"created_at":"yesterday `), host.InvalidArgument, "thread"},
		"a title too long":   {replace(`"title":"`, `"title":"`+strings.Repeat("x", 2000)), host.InvalidArgument, "title"},
		"messages of text":   {head + `"messages":"all"}`, host.InvalidArgument, "a list"},
	} {
		t.Run(name, func(t *testing.T) {
			s, d := threadtest.NewStore(t, nil)
			_, err := threadtest.ImportInto(t, s, "acme", "", "", c.text)
			threadtest.WantCode(t, "Import", err, c.want)
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("Import = %q, want %q in it", err, c.says)
			}
			threadtest.WantNoThread(t, s, d, "acme")
		})
	}
	s, _ := threadtest.NewStore(t, nil)
	_, err := threadtest.ImportInto(t, s, "", "t1", "xml", whole)
	threadtest.WantCode(t, "Import", err, host.InvalidArgument)
}

// doubled is an export whose first message comes twice.
func doubled(t *testing.T, whole string) string {
	t.Helper()
	_, rest, _ := strings.Cut(whole, "\"messages\":[\n")
	first, _, ok := strings.Cut(rest, ",\n")
	if !ok {
		t.Fatal("the export has one message")
	}
	return strings.Replace(whole, "\"messages\":[\n", "\"messages\":[\n"+first+",\n", 1)
}

func TestTruncatedFilesLeaveNothing(t *testing.T) {
	whole := strings.TrimSpace(threadtest.ExportOf(t, threadtest.ExportStore(t), "acme", "t1", transfer.FormatThread))
	s, d := threadtest.NewStore(t, nil)
	for n := 0; n < len(whole); n += 1 + n%7 {
		_, err := threadtest.ImportInto(t, s, "acme", "", transfer.FormatThread, whole[:n])
		threadtest.WantCode(t, fmt.Sprintf("Import of %d bytes", n), err, host.InvalidArgument)
		threadtest.WantNoThread(t, s, d, "acme")
	}
}

// A bit that flips makes the file unreadable or another conversation, and never a
// thread that cannot be read.
func TestFlippedBits(t *testing.T) {
	whole := threadtest.ExportOf(t, threadtest.ExportStore(t), "acme", "t1", transfer.FormatThread)
	step := longtest.Rounds(17, 3)
	for n := 0; n < len(whole); n += step {
		b := []byte(whole)
		b[n] ^= 1 << (n % 8)
		s, d := threadtest.NewStore(t, nil)
		got, err := threadtest.ImportInto(t, s, "acme", "", transfer.FormatThread, string(b))
		if err != nil {
			threadtest.WantNoThread(t, s, d, "acme")
			continue
		}
		if _, err := s.For("acme").Show(t.Context(), got.Thread.ID, 0); err != nil {
			t.Errorf("bit of byte %d: the thread cannot be read: %v", n, err)
		}
	}
}

// repeating reads the same bytes for ever.
type repeating struct{ text string }

func (r repeating) Read(b []byte) (int, error) {
	n := 0
	for n < len(b) {
		n += copy(b[n:], r.text)
	}
	return n, nil
}

func TestOversizedItemsAreRefused(t *testing.T) {
	longtest.Need(t, "reads 64 MiB for each")
	for _, begin := range []string{`{"format":"agenthost.thread","version":1,"thread":{"id":"t"},"messages":[{"id":"`, `[`} {
		filler := repeating{"x"}
		if begin == `[` {
			filler = repeating{" "}
		}
		src, err := transfer.NewSource("", io.MultiReader(strings.NewReader(begin), filler))
		if err != nil {
			t.Fatal(err)
		}
		s, d := threadtest.NewStore(t, nil)
		_, err = transfer.Import(t.Context(), s.For("acme"), src, &transfer.ImportOptions{Thread: "t1"})
		threadtest.WantCode(t, "Import of "+begin, err, host.ResourceExhausted)
		threadtest.WantNoThread(t, s, d, "acme")
	}
}

func TestTimesFromElsewhere(t *testing.T) { synctest.Test(t, testTimesFromElsewhere) }

func testTimesFromElsewhere(t *testing.T) {
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	time.Sleep(time.Until(now)) // on the clock of the test
	for _, c := range []struct{ name, created, updated, wantCreated, wantUpdated string }{
		{"past", "2024-01-01T00:00:00Z", "2024-02-01T00:00:00+01:00", "2024-01-01T00:00:00Z", "2024-01-31T23:00:00Z"},
		{"future", "2025-01-01T00:00:00Z", "9999-01-01T00:00:00Z", "2025-01-01T00:00:00Z", "2026-05-01T00:00:00Z"},
		{"backwards", "2025-01-01T00:00:00Z", "2024-01-01T00:00:00Z", "2025-01-01T00:00:00Z", "2025-01-01T00:00:00Z"},
		{"none", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "2026-05-01T00:00:00Z", "2026-05-01T00:00:00Z"},
	} {
		s, _ := threadtest.NewStore(t, nil)
		got, err := threadtest.ImportInto(t, s, "", "", transfer.FormatThread, fmt.Sprintf(
			`{"format":"agenthost.thread","version":1,"thread":{"id":%q,"created_at":%q,"updated_at":%q},"messages":[{"role":"user","parts":[]}]}`, c.name, c.created, c.updated))
		if err != nil {
			t.Fatal(err)
		}
		if created, updated := got.Thread.Created.Format(time.RFC3339), got.Thread.Updated.Format(time.RFC3339); created != c.wantCreated || updated != c.wantUpdated {
			t.Errorf("%s: created %s, updated %s, want %s and %s", c.name, created, updated, c.wantCreated, c.wantUpdated)
		}
		if m := threadtest.Load(t, s, c.name).Messages; len(m) != 1 || !m[0].CreatedAt.Equal(now) || m[0].ID == "" {
			t.Errorf("%s: a message without a time and an id is %+v", c.name, m)
		}
	}
}

func TestUnknownPartsAndFieldsSurvive(t *testing.T) {
	message := `{"id":"m","role":"user","parts":[{"type":"hologram","depth":1e400,"of":{"b":1,"a":2}},{"type":"text","text":"x","lang":"fr"}],"created_at":"2024-01-01T00:00:00Z","metadata":{"k":[1]},"priority":9}`
	s, _ := threadtest.NewStore(t, nil)
	if _, err := threadtest.ImportInto(t, s, "", "", "", `{"format":"agenthost.thread","version":1,"thread":{"id":"t1"},"messages":[`+message+`]}`); err != nil {
		t.Fatal(err)
	}
	if got := threadtest.ExportOf(t, s, "", "t1", transfer.FormatThread); !strings.Contains(got, message) {
		t.Errorf("exported again: %s, want %s in it", got, message)
	}
}

// openAICases are messages as OpenAI's API has them.
func openAICases() []string {
	return []string{
		`{"role":"user","content":"hi"}`,
		`{"role":"user","content":"hi","name":"ada"}`,
		`{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`,
		`{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/x.png"}}]}`,
		`{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/x.png","detail":"low"}}]}`,
		`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AQID"}},{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]}`,
		`{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"BA==","format":"mp3"}}]}`,
		`{"role":"user","content":[{"type":"file","file":{"file_data":"data:application/pdf;base64,BQ==","filename":"a.pdf"}},{"type":"file","file":{"file_id":"f1"}}]}`,
		`{"role":"user","content":[{"type":"video_url","video_url":{"url":"https://example.com/x.mp4"}}]}`,
		`{"role":"system","content":"be brief"}`,
		`{"role":"developer","content":"be brief"}`,
		`{"role":"assistant","content":"ok","name":"clerk"}`,
		`{"role":"assistant","content":null,"refusal":"no","reasoning_content":"hm"}`,
		`{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}`,
		`{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"n\":12345678901234567890}"}},{"id":"2","type":"function","function":{"name":"f","arguments":"{broken"}},{"id":"3","type":"custom","custom":{"name":"g","input":"x"}}]}`,
		`{"role":"tool","tool_call_id":"1","content":"{\"city\":\"Lyon\"}"}`,
		`{"role":"tool","tool_call_id":"2","content":[{"type":"text","text":"a"}]}`,
		`{"role":"assistant","function_call":{"name":"old","arguments":"{}"},"content":null}`,
		`{"role":"function","name":"old","content":"done"}`,
		`{"role":"assistant","content":"","weight":0}`,
	}
}

// What was imported from OpenAI's form is exported as it was, whatever was in it.
func TestOpenAIMessagesComeBack(t *testing.T) {
	list := openAICases()
	for name, text := range map[string]string{
		"openai":       `{"model":"gpt-x","messages":[` + strings.Join(list, ",\n") + `],"tools":[{}]}`,
		"an array":     " [" + strings.Join(list, ",") + "]\n",
		"openai-jsonl": "\xef\xbb\xbf" + strings.Join(list, "\r\n") + "\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := threadtest.NewStore(t, nil)
			for round := range 2 {
				got, err := threadtest.ImportInto(t, s, "", "t1", "", text)
				if err != nil || got.Thread.Messages != len(list) || round == 1 && got.Messages != 0 {
					t.Fatalf("round %d: Import = %+v, %v", round, got, err)
				}
			}
			var back []string
			for line := range strings.Lines(threadtest.ExportOf(t, s, "", "t1", transfer.FormatOpenAILines)) {
				back = append(back, sorted(t, line))
			}
			want := make([]string, len(list))
			for i := range list {
				want[i] = sorted(t, list[i])
			}
			if diff := cmp.Diff(want, back); diff != "" {
				t.Errorf("exported again (-want +got):\n%s", diff)
			}
			if title := mustThread(t, s, "t1").Title; title != "hi" {
				t.Errorf("title is %q, want the first input", title)
			}
		})
	}
}

func mustThread(t *testing.T, s *threads.Store, id string) *threads.Thread {
	t.Helper()
	got, err := s.For("").Thread(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// sorted is JSON with its members in order.
func sorted(t testing.TB, text string) string {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// What models see of imported messages is what they would have seen.
func TestOpenAIMessagesAsParts(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	if _, err := threadtest.ImportInto(t, s, "", "t1", "", "["+strings.Join(openAICases(), ",")+"]"); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, m := range threadtest.Load(t, s, "t1").Messages {
		line := string(m.Role)
		for _, p := range m.Parts {
			line += " " + p.Type()
			switch p := p.(type) {
			case *host.ToolCall:
				line += "=" + p.Name + string(p.Arguments)
			case *host.ToolResult:
				line += "=" + p.Name + p.ContentText()
			}
		}
		kinds = append(kinds, line)
	}
	want := []string{
		"user text", "user text", "user text text", "user media", "user media", "user media text", "user media",
		"user media openai.file", "user openai.video_url", "system text", "system text", "assistant text", "assistant", "assistant text",
		`assistant tool_call=f{"n":12345678901234567890} tool_call=f"{broken" openai.tool_call.custom`,
		`tool tool_result=f{"city":"Lyon"}`, "tool tool_result=fa", "assistant tool_call=old{}", "tool tool_result=olddone", "assistant",
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}

// A message that was changed after it was imported is exported as it is now.
func TestChangedMessagesAreExportedAsTheyAre(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	if _, err := threadtest.ImportInto(t, s, "", "t1", "", `[{"role":"user","content":"hi","name":"ada"}]`); err != nil {
		t.Fatal(err)
	}
	m := threadtest.Load(t, s, "t1").Messages[0].Clone()
	m.Parts = []host.Part{&host.Text{Text: "bye"}}
	m.ID = "changed"
	threadtest.Say(t, s, "t2", "r", m)
	if got := threadtest.ExportOf(t, s, "", "t2", transfer.FormatOpenAILines); got != "{\"role\":\"user\",\"content\":\"bye\"}\n" {
		t.Errorf("exported: %s", got)
	}
}

func TestOpenAIImportRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"no thread":               {`[{"role":"user","content":"hi"}]`, "which thread"},
		"no role":                 {`[{"content":"hi"}]`, "message 0: role"},
		"an unknown role":         {`[{"role":"user","content":"a"},{"role":"owner"}]`, "message 1: role"},
		"a content of numbers":    {`[{"role":"user","content":7}]`, "content"},
		"a part without a type":   {`[{"role":"user","content":[{}]}]`, "no type"},
		"a part of text":          {`[{"role":"user","content":["x"]}]`, "part 0"},
		"a result of no call":     {`[{"role":"tool","content":"x"}]`, "which call"},
		"a call without a name":   {`[{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{}}]}]`, "needs an id and a name"},
		"no messages":             {`{"model":"x"}`, "messages"},
		"messages twice":          {`{"messages":[],"messages":[]}`, "twice"},
		"messages of an object":   {`{"messages":{}}`, "a list"},
		"a list that goes on":     {`[{"role":"user","content":"hi"}`, "middle"},
		"something after the end": {`[] 7`, "after the end"},
		"lines of conversations":  {`{"role":"user","content":"hi"}` + "\n" + `{"messages":[]}`, "role"},
		"a line that is cut":      {`{"role":"user","content":"hi"}` + "\n" + `{"role":"us`, "middle"},
	} {
		t.Run(name, func(t *testing.T) {
			s, d := threadtest.NewStore(t, nil)
			id := "t1"
			if name == "no thread" {
				id = ""
			}
			_, err := threadtest.ImportInto(t, s, "acme", id, "", c.text)
			threadtest.WantCode(t, "Import", err, host.InvalidArgument)
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("Import = %q, want %q in it", err, c.says)
			}
			threadtest.WantNoThread(t, s, d, "acme")
		})
	}
}

func TestSourcesOfOthers(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	for name, items := range map[string][]transfer.Item{
		"an empty item":        {{}},
		"a thread in the end":  {{Message: host.UserText("x")}, {Thread: &threads.Thread{ID: "t"}}},
		"messages after turns": {{Message: host.UserText("x")}, {Snapshot: &threads.Snapshot{ID: "r"}}, {Message: host.UserText("x")}},
		"a state of no JSON":   {{Message: host.UserText("x")}, {State: json.RawMessage("{")}},
		"a turn twice":         {{Snapshot: &threads.Snapshot{ID: "r"}}, {Snapshot: &threads.Snapshot{ID: "r"}}},
	} {
		_, err := transfer.Import(t.Context(), s.For("acme"), itemSource(items), &transfer.ImportOptions{Thread: "t1"})
		threadtest.WantCode(t, name, err, host.InvalidArgument)
		threadtest.WantNoThread(t, s, d, "acme")
	}
	if got, err := transfer.Import(t.Context(), s.For(""), itemSource(nil), &transfer.ImportOptions{Thread: "t1"}); err != nil || !got.Created || got.Thread.Messages != 0 {
		t.Errorf("Import of nothing = %+v, %v, want an empty thread", got, err)
	}
}

type itemSource []transfer.Item

func (s itemSource) Items() iter.Seq2[transfer.Item, error] {
	return func(yield func(transfer.Item, error) bool) {
		for item := range slices.Values(s) {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// FuzzImport: whatever a file holds, an import fails and leaves nothing, or makes
// a thread that can be read, exported and imported again.
func FuzzImport(f *testing.F) {
	f.Add(`{"format":"agenthost.thread","version":1,"thread":{"id":"t1"},"messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"x"}]}],"snapshots":[{"id":"r","from":0,"to":1,"state":{"digest":"d","size":2},"state_value":{}}],"state":{"a":1},"artifacts":[{"name":"a","parts":[]}]}`)
	f.Add("[" + strings.Join(openAICases(), ",") + "]")
	f.Add(strings.Join(openAICases(), "\n"))
	f.Add(`{"messages":[]}`)
	f.Add(`{"format":"agenthost.thread","version":1,"thread":{"id":"t1"},"messages":[{"id":"m","role":"user","parts":[{"type":"media","media_type":"x/y","url":"upload:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}]}],"uploads":[{"digest":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","chunks":[]}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, d := threadtest.NewStore(t, nil)
		if _, err := threadtest.ImportInto(t, s, "acme", "t1", "", text); err != nil {
			if code := host.CodeOf(err); code != host.InvalidArgument && code != host.ResourceExhausted && code != host.FailedPrecondition {
				t.Fatalf("Import = %v (%s)", err, code)
			}
			threadtest.WantNoThread(t, s, d, "acme")
			return
		}
		for _, format := range transfer.Formats() {
			out := threadtest.ExportOf(t, s, "acme", "t1", format)
			if _, err := threadtest.ImportInto(t, s, "copy", string(format), format, out); err != nil {
				t.Fatalf("import of what was exported as %s: %v\n%s", format, err, out)
			}
			if format != transfer.FormatThread {
				continue
			}
			if got, err := threadtest.ImportInto(t, s, "acme", "t1", format, out); err != nil || got.Messages+got.Turns > 0 {
				t.Fatalf("import of the thread over itself: %+v, %v\n%s", got, err, out)
			}
		}
	})
}
