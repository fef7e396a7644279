package mcpclient

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestReportsThatCameBeforeAnAnswerArePassedOn(t *testing.T) {
	for range 50 {
		done, reports := make(chan callAnswer, 1), make(chan *mcp.ProgressNotificationParams, maxProgress)
		for n := range maxProgress {
			reports <- &mcp.ProgressNotificationParams{Progress: float64(n)}
		}
		done <- callAnswer{result: &mcp.CallToolResult{}}
		passed := 0
		a := awaitAnswer(t.Context(), done, reports, func(p *mcp.ProgressNotificationParams) {
			if p.Progress != float64(passed) {
				t.Errorf("report %v is passed on as number %d", p.Progress, passed)
			}
			passed++
		})
		if a.result == nil || a.err != nil || passed != maxProgress {
			t.Fatalf("%+v after %d reports, want the answer after %d", a, passed, maxProgress)
		}
	}
}
