package postgreshistory

import (
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
)

// Cursors come back from clients. What is one again is the same place; the rest
// is the client's fault. Inside, because a place is not seen from outside.
func FuzzReadCursor(f *testing.F) {
	f.Add(cursor(place{time.Unix(1, 2).UTC(), "t1"}))
	f.Add("")
	f.Add("e30")
	f.Add("eyJ1IjoiMjAyNS0wMS0wMVQwMDowMDowMFoiLCJpIjoiXHUwMDAwIn0")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := readCursor(text)
		if err != nil {
			if host.CodeOf(err) != host.InvalidArgument {
				t.Errorf("readCursor(%q): %v, want code %s", text, err, host.InvalidArgument)
			}
			return
		}
		if again, err := readCursor(cursor(p)); err != nil || again.ID != p.ID || !again.Updated.Equal(p.Updated) {
			t.Errorf("readCursor(%q) = %+v, which comes back as %+v, %v", text, p, again, err)
		}
	})
}
