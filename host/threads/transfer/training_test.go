package transfer_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/host/threads/transfer"
)

const trainingFile = `{"messages":[{"role":"system","content":"Marv is sarcastic."},{"role":"user","content":"Capital of France?"},{"role":"assistant","content":"Paris, as if everyone doesn't know.","weight":1}]}

{"messages":[{"role":"user","content":"How far is the moon?"},{"role":"assistant","content":"384,400 kilometers. Give or take."}],"tools":[]}
`

// importAll imports each conversation of a training file under t-N.
func importAll(t *testing.T, s *threads.Store, text string) (n int, err error) {
	t.Helper()
	sources, err := transfer.NewSources(transfer.FormatOpenAITraining, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for src, err := range sources {
		if err != nil {
			return n, err
		}
		if _, err := transfer.Import(t.Context(), s.For(""), src, &transfer.ImportOptions{Thread: fmt.Sprint("t-", n+1)}); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// A training file is a thread a line, and each line is what an export of it is.
func TestTrainingFile(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	for range 2 { // the second time changes nothing
		if n, err := importAll(t, s, "\ufeff"+trainingFile); n != 2 || err != nil {
			t.Fatalf("imported %d, %v", n, err)
		}
	}
	if got := threadtest.ExportOf(t, s, "", "t-1", transfer.FormatOpenAI); !strings.Contains(got, `"weight":1`) || !strings.Contains(got, "Marv is sarcastic.") {
		t.Errorf("the first is %s", got)
	}
	if got := threadtest.ExportOf(t, s, "", "t-2", transfer.FormatOpenAI); strings.Count(got, `"role"`) != 2 || !strings.Contains(got, "384,400") {
		t.Errorf("the second is %s", got)
	}
}

func TestDetect(t *testing.T) {
	one := trainingFile[:strings.Index(trainingFile, "\n")]
	long := `{"messages":[{"role":"user","content":"` + strings.Repeat("x", 100_000) + `"}]}` + "\n" + one
	for _, c := range []struct {
		name, text string
		want       transfer.Format
	}{
		{"two lines", trainingFile, transfer.FormatOpenAITraining},
		{"two lines, the second cut", trainingFile[:len(trainingFile)-9], transfer.FormatOpenAITraining},
		{"one line", one + "\n", transfer.FormatOpenAI},
		{"spread over lines", strings.ReplaceAll(one, ",", ",\n"), transfer.FormatOpenAI},
		{"a list", `[{"role":"user","content":"x"}]`, transfer.FormatOpenAI},
		{"a message a line", `{"role":"user","content":"x"}` + "\n" + `{"role":"assistant","content":"y"}`, transfer.FormatOpenAILines},
		{"an export", `{"format":"agenthost.thread"`, transfer.FormatThread},
		{"a first line that is long", long, transfer.FormatOpenAI},
	} {
		got, r, err := transfer.Detect(strings.NewReader(c.text))
		if err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
			continue
		}
		if all, err := io.ReadAll(r); err != nil || string(all) != c.text {
			t.Errorf("%s: the reader yields %d bytes of %d, %v", c.name, len(all), len(c.text), err)
		}
	}
	if _, _, err := transfer.Detect(strings.NewReader("hello")); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("no format: %v", err)
	}
}

func TestBadTrainingFiles(t *testing.T) {
	good := `{"messages":[{"role":"user","content":"x"}]}` + "\n"
	for name, c := range map[string]struct {
		text string
		n    int
		code host.Code
	}{
		"cut":              {good + `{"messages":[{"role":"user"`, 1, host.InvalidArgument},
		"a list":           {good + `[{"role":"user","content":"x"}]`, 1, host.InvalidArgument},
		"no messages":      {good + `{"prompt":"x","completion":"y"}`, 1, host.InvalidArgument},
		"an unknown role":  {good + good + `{"messages":[{"role":"god","content":"x"}]}`, 2, host.InvalidArgument},
		"a number":         {"7", 0, host.InvalidArgument},
		"something behind": {good + "}", 1, host.InvalidArgument},
		"nothing":          {"", 0, ""},
	} {
		s, _ := threadtest.NewStore(t, nil)
		if n, err := importAll(t, s, c.text); n != c.n || host.CodeOf(err) != c.code {
			t.Errorf("%s: %d were imported, %v; want %d and code %q", name, n, err, c.n, c.code)
		}
	}
	if _, err := transfer.NewSources(transfer.FormatThread, strings.NewReader(good)); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("another format: %v", err)
	}
	if _, err := transfer.NewSource(transfer.FormatOpenAITraining, strings.NewReader(good)); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("as one conversation: %v", err)
	}
	src, err := transfer.NewSource(transfer.FormatOpenAI, strings.NewReader(good+good))
	if err != nil {
		t.Fatal(err)
	}
	s, _ := threadtest.NewStore(t, nil)
	if _, err := transfer.Import(t.Context(), s.For(""), src, &transfer.ImportOptions{Thread: "t"}); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("two conversations as one: %v", err)
	}
}

// Whatever is in a file, reading it ends, and says what it is.
func FuzzTrainingFile(f *testing.F) {
	f.Add(trainingFile)
	f.Add(`{"messages":[]}{"messages":[{"role":"user"}]} 7`)
	f.Fuzz(func(t *testing.T, text string) {
		if _, r, err := transfer.Detect(strings.NewReader(text)); err == nil {
			if all, err := io.ReadAll(r); err != nil || !strings.HasSuffix(text, string(all)) {
				t.Fatalf("Detect's reader yields %q of %q, %v", all, text, err)
			}
		}
		sources, err := transfer.NewSources(transfer.FormatOpenAITraining, strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		for src, err := range sources {
			if err != nil {
				if host.CodeOf(err) != host.InvalidArgument {
					t.Fatalf("%q: %v", text, err)
				}
				return
			}
			for _, err := range src.Items() {
				if err != nil && host.CodeOf(err) != host.InvalidArgument {
					t.Fatalf("%q: %v", text, err)
				}
			}
		}
	})
}
