package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
)

func TestJSONValueReadsAFlagAFileAndStdin(t *testing.T) {
	file := filepath.Join(t.TempDir(), "in.json")
	if err := os.WriteFile(file, []byte(" {\"from\":\"file\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]string{`{"from":"flag"}`: `{"from":"flag"}`, "@" + file: `{"from":"file"}`, "-": `{"from":"stdin"}`} {
		b, err := JSONValue(strings.NewReader("{\"from\":\"stdin\"}\n"), "agenthost x", "--input", from)
		if err != nil || string(b) != want {
			t.Errorf("JSONValue(%q) = %s, %v; want %s", from, b, err, want)
		}
	}
	_, err := JSONValue(nil, "agenthost x", "--input", `{"a":}`)
	if err == nil || !strings.Contains(err.Error(), "--input is not JSON") || !strings.Contains(err.Error(), "(at byte 6)") {
		t.Errorf("JSONValue of what is no JSON = %v", err)
	}
	if _, err := JSONValue(nil, "agenthost x", "--input", "@"+file+".none"); host.CodeOf(err) != host.NotFound {
		t.Errorf("JSONValue of a missing file = %v, want code not_found", err)
	}
}

func TestMemberIsNilWhereThereIsNone(t *testing.T) {
	for object, want := range map[string]string{`{"a":[1]}`: "[1]", `{"b":1}`: "", `[1]`: "", `{`: ""} {
		if got := Member([]byte(object), "a"); string(got) != want {
			t.Errorf("Member(%s) = %q, want %q", object, got, want)
		}
	}
}
