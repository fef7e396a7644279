package mcpserver

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/runevent"
)

// The pieces of an answer's text are sent together: a notification for each would cost
// clients more than the text.
const (
	progressEvery = 100 * time.Millisecond
	progressBytes = 1 << 10
	maxProgress   = 1000 // notifications of one call
)

// logKind is the kind of the events that a tool emits for logs. Their data is a text, or
// {"level":..., "message":...}.
const logKind = "log"

// progress is what a client has been told of a call.
type progress struct {
	last float64 // the value of the last notification, which each must exceed
	sent int
	text strings.Builder // not sent yet
	at   time.Time       // of the last piece of text that was sent
}

// report tells the client of an event, if it wants to know.
func (c *call) report(ctx context.Context, ev host.Event) {
	switch d := ev.Data.(type) {
	case *runevent.TextDelta:
		if c.tool != nil || c.wantsNone() {
			return
		}
		if c.progress.text.WriteString(d.Text); c.progress.text.Len() >= progressBytes || ev.Time.Sub(c.progress.at) >= progressEvery {
			c.flush(ctx)
			c.progress.at = ev.Time
		}
	case *runevent.AgentStarted:
		if c.tool == nil && ev.Agent != "" && ev.Agent != c.target.Name() {
			c.flush(ctx)
			c.notify(ctx, host.Progress{Message: ev.Agent + " begins"})
		}
	case *runevent.ToolStarted:
		if c.tool == nil {
			c.flush(ctx)
			c.notify(ctx, host.Progress{Message: d.Name + " is called"})
		}
	case *runevent.ToolProgress:
		c.reportTool(ctx, d)
	}
}

// reportTool tells of an event that a tool has emitted.
func (c *call) reportTool(ctx context.Context, d *runevent.ToolProgress) {
	switch d.Kind {
	case host.ProgressKind:
		var p host.Progress
		if json.Unmarshal(d.Data, &p) != nil {
			return
		}
		if c.tool == nil { // the numbers are of one of several tools
			if p.Message == "" {
				return
			}
			p = host.Progress{Message: d.Name + ": " + p.Message}
		}
		c.flush(ctx)
		c.notify(ctx, p)
	case logKind:
		c.log(ctx, d)
	}
}

// wantsNone reports whether the client has not asked for progress.
func (c *call) wantsNone() bool { return c.req.Params.GetProgressToken() == nil }

// wantsLogs reports whether the client may have asked for the logs of tools.
func (c *call) wantsLogs() bool {
	//lint:ignore SA1019 clients of the versions with sessions read the logs of tools
	return c.endpoint.logs.Load() || c.req.Params.GetMeta()[mcp.MetaKeyLogLevel] != nil
}

// flush sends the text that waits.
func (c *call) flush(ctx context.Context) {
	if c.progress.text.Len() == 0 {
		return
	}
	text := c.progress.text.String()
	c.progress.text.Reset()
	c.notify(ctx, host.Progress{Message: text})
}

// notify sends a notification of progress. Its value exceeds that of the one before: where
// the tool gives none, by the least, so that it does not pass a total.
func (c *call) notify(ctx context.Context, p host.Progress) {
	if c.wantsNone() || c.progress.sent >= maxProgress {
		return
	}
	value := p.Done
	if c.progress.sent > 0 && value <= c.progress.last {
		if value = math.Nextafter(c.progress.last, math.Inf(1)); p.Total == 0 {
			value = math.Floor(c.progress.last) + 1
		}
	}
	c.progress.last = value
	c.progress.sent++
	_ = c.req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ // a client that has left reads nothing
		ProgressToken: c.req.Params.GetProgressToken(), Progress: value, Total: p.Total, Message: p.Message,
	})
}

// log sends a line of a tool's log, if the client wants those of its level.
func (c *call) log(ctx context.Context, d *runevent.ToolProgress) {
	if c.progress.sent >= maxProgress {
		return
	}
	c.progress.sent++
	line := struct {
		//lint:ignore SA1019 clients of the versions with sessions read the logs of tools
		Level   mcp.LoggingLevel `json:"level"`
		Message string           `json:"message"`
	}{Level: "info"}
	if json.Unmarshal(d.Data, &line) != nil {
		if json.Unmarshal(d.Data, &line.Message) != nil {
			return
		}
	}
	switch line.Level {
	case "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency":
	default:
		line.Level = "info"
	}
	//lint:ignore SA1019 clients of the versions with sessions read the logs of tools
	_ = c.req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: line.Level, Logger: d.Name, Data: line.Message})
}
