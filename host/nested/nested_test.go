package nested_test

import (
	"testing"

	"github.com/agenthost/agenthost/host/nested"
)

func TestAllowsOnlyNamesThatAreListed(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  bool
	}{
		{nil, false},
		{[]string{"other"}, false},
		{[]string{"other", "search"}, true},
		{[]string{nested.EveryTool}, true},
	} {
		if got := nested.Allows(c.names, "search"); got != c.want {
			t.Errorf("Allows(%q, search) = %v, want %v", c.names, got, c.want)
		}
	}
}
