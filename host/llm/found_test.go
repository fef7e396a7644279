package llm_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/llm"
)

func TestToolsAreOfferedOnceAResultNamesThem(t *testing.T) {
	specs := []llm.ToolSpec{{Name: "find"}, {Name: "other"}}
	hidden := []llm.FoundTool{{ToolSpec: llm.ToolSpec{Name: "a"}, By: "find"}, {ToolSpec: llm.ToolSpec{Name: "b"}, By: "find"}, {ToolSpec: llm.ToolSpec{Name: "c"}, By: "seek"}}
	for _, row := range []struct {
		name     string
		tool     string
		content  string
		failed   bool
		hidden   []llm.FoundTool
		wantMore []string
	}{
		{name: "nothing hidden", tool: "find", content: `{"tools":[{"name":"a"}]}`},
		{name: "one named", tool: "find", content: `{"tools":[{"name":"b"}]}`, hidden: hidden, wantMore: []string{"b"}},
		{name: "in the order of the hidden ones", tool: "find", content: `{"tools":[{"name":"b"},{"name":"a"}]}`, hidden: hidden, wantMore: []string{"a", "b"}},
		{name: "not by another tool's result", tool: "other", content: `{"tools":[{"name":"a"}]}`, hidden: hidden},
		{name: "not by another finder", tool: "find", content: `{"tools":[{"name":"c"}]}`, hidden: hidden},
		{name: "not by a failure", tool: "find", content: `{"tools":[{"name":"a"}]}`, failed: true, hidden: hidden},
		{name: "not by another form", tool: "find", content: `"a"`, hidden: hidden},
	} {
		t.Run(row.name, func(t *testing.T) {
			result := chat.NewMessage(chat.ToolRole, &chat.ToolResult{ID: "1", Name: row.tool, Content: json.RawMessage(row.content), IsError: row.failed})
			var got []string
			for _, s := range llm.WithFound(specs, row.hidden, nil, []*chat.Message{result}) {
				got = append(got, s.Name)
			}
			if want := append([]string{"find", "other"}, row.wantMore...); !slices.Equal(got, want) {
				t.Errorf("offered %q, want %q", got, want)
			}
		})
	}
}
