package usage

import (
	"strings"
	"time"
)

// Window is a span of time in which a limit holds: a length that begins with the first
// use, or a span of the calendar in UTC. The zero value is the plan's window.
type Window struct {
	length   time.Duration
	calendar string
}

// The windows of the calendar. Each begins and ends in UTC: a day at midnight, a month at
// midnight of its first day.
var (
	CalendarHour  = Window{calendar: "hour"}
	CalendarDay   = Window{calendar: "day"}
	CalendarMonth = Window{calendar: "month"}
)

// The shortest and the longest window of a length.
const (
	minWindow = time.Second
	maxWindow = 31 * 24 * time.Hour
)

// Every returns a window of a length, from a second to 31 days, which begins with the
// first use after the last window has ended. A plan with any other length is refused.
func Every(length time.Duration) Window { return Window{length: length} }

// ParseWindow reads a window: a length such as "90s" or "24h", or "hour", "day" or
// "month" of the calendar. Code invalid_argument for other text.
func ParseWindow(text string) (Window, error) {
	for _, w := range []Window{CalendarHour, CalendarDay, CalendarMonth} {
		if text == w.calendar {
			return w, nil
		}
	}
	d, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil {
		return Window{}, invalid("window %q is neither a length nor a span of the calendar", text).WithHint("write 90s, 24h, hour, day or month")
	}
	w := Every(d)
	return w, w.check()
}

// String returns the text that ParseWindow reads; "" for the zero value.
func (w Window) String() string {
	if w.calendar != "" {
		return w.calendar
	}
	if w.length == 0 {
		return ""
	}
	return w.length.String()
}

func (w Window) check() error {
	if w.calendar == "" && (w.length < minWindow || w.length > maxWindow) {
		return invalid("window %s is not from %s to %s", w.length, minWindow, maxWindow).
			WithHint("leave it out for the default, or use a span of the calendar")
	}
	return nil
}

// at returns the window that holds now, or that begins with a use now.
func (w Window) at(now time.Time) (begins, ends time.Time) {
	now = now.UTC()
	year, month, day := now.Date()
	switch w.calendar {
	case "":
		return now, now.Add(w.length)
	case "hour":
		begins = now.Truncate(time.Hour)
		return begins, begins.Add(time.Hour)
	case "day":
		begins = time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
		return begins, begins.AddDate(0, 0, 1)
	default: // month
		begins = time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
		return begins, begins.AddDate(0, 1, 0)
	}
}
