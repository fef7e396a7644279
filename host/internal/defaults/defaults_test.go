package defaults_test

import (
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/internal/defaults"
)

func TestSetsWhatIsNotAboveZero(t *testing.T) {
	for _, row := range []struct{ given, want int }{{0, 7}, {-1, 7}, {3, 3}} {
		if defaults.Set(&row.given, 7); row.given != row.want {
			t.Errorf("Set = %d, want %d", row.given, row.want)
		}
	}
	wait := time.Duration(0)
	if defaults.Set(&wait, time.Second); wait != time.Second {
		t.Errorf("Set = %s, want 1s", wait)
	}
}
