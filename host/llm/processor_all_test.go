package llm_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/llm"
)

// dropping drops the first n messages of a view, and says how many were own.
func dropping(name string, n int, owns *[]int) llm.Processor { return &dropper{name, n, owns} }

type dropper struct {
	name string
	n    int
	owns *[]int
}

func (d *dropper) Name() string { return d.name }

func (d *dropper) Process(_ context.Context, view *llm.View) (*llm.Processed, error) {
	*d.owns = append(*d.owns, view.Own)
	if d.n < 0 {
		return nil, errors.New("it cannot")
	}
	return &llm.Processed{Edits: []chat.Edit{chat.Drop{From: 0, To: d.n}}, Report: []byte(`"` + d.name + `"`)}, nil
}

func TestProcessAllAppliesAList(t *testing.T) {
	var owns []int
	view := llm.NewView([]*chat.Message{chat.UserText("1"), chat.UserText("2"), chat.UserText("3"), chat.UserText("4")}, "m", nil)
	view.Own = 3
	out, reports, err := llm.ProcessAll(t.Context(), []llm.Processor{
		dropping("first", 2, &owns), llm.Optional(dropping("skipped", -1, &owns)), dropping("last", 1, &owns)}, view)
	if err != nil {
		t.Fatal(err)
	}
	if said(out) != "u:4" || len(view.Messages) != 4 {
		t.Errorf("%s is left of %d", said(out), len(view.Messages))
	}
	if len(reports) != 3 || string(reports[0].Report) != `"first"` || reports[1] != nil || string(reports[2].Report) != `"last"` {
		t.Errorf("reports %v", reports)
	}
	if len(owns) != 3 || owns[0] != 3 || owns[1] != 2 || owns[2] != 2 {
		t.Errorf("the processors are told of %v own messages, want 3, 2 and 2", owns)
	}
	_, _, err = llm.ProcessAll(t.Context(), []llm.Processor{dropping("first", 1, &owns), dropping("broken", -1, &owns)}, view)
	if err == nil || !strings.HasPrefix(err.Error(), `processor "broken": it cannot`) {
		t.Errorf("a processor that fails: %v", err)
	}
	if out, _, err := llm.ProcessAll(t.Context(), nil, view); err != nil || len(out) != 4 {
		t.Errorf("no processors leave %d messages, %v", len(out), err)
	}
}
