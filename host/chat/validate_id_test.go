package chat_test

import (
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
)

func TestValidateID(t *testing.T) {
	for _, c := range []struct{ id, says string }{
		{"t1", ""},
		{"../../x", ""}, // a name, never a path
		{"12345678", ""},
		{"", "thread has no id"},
		{"123456789", "9 bytes long, more than 8"},
		{strings.Repeat("a", 1<<20), "1048576 bytes long, more than 8"},
		{"a\xff", "not UTF-8"},
		{"a\x00b", "has a control character"},
		{"a\tb", "has a control character"},
		{"a\x1b[1m", "has a control character"},
		{"a\u0085b", "has a control character"},
	} {
		err := chat.ValidateID("thread", c.id, 8)
		if c.says == "" {
			if err != nil {
				t.Errorf("ValidateID(%q) = %v", c.id, err)
			}
			continue
		}
		if fault.CodeOf(err) != fault.InvalidArgument || !strings.Contains(err.Error(), c.says) || len(err.Error()) > 200 {
			t.Errorf("ValidateID(%.20q) = %v, want invalid_argument that says %q", c.id, err, c.says)
		}
	}
}
