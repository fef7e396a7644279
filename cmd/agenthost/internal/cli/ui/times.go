package ui

import (
	"bytes"
	"io"
	"regexp"
	"strconv"
	"sync"
)

// PrintTimed writes a command's measurements as PrintJSON does, with every time in
// milliseconds: the library counts in microseconds and nanoseconds. v contains no JSON
// of users, who may use the same names for other values.
func PrintTimed(w io.Writer, v any) error {
	var b bytes.Buffer
	if err := PrintJSON(&b, v); err != nil {
		return err
	}
	_, err := w.Write(inMilliseconds(b.Bytes()))
	return err
}

var (
	timeMember  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`"(\w+)_(us|ns)":(-?[0-9]+)`) })
	timesMember = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`"(\w+)_ns":\{([^{}]*)\}`) })
	wholeNumber = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`:(-?[0-9]+)`) })
)

// inMilliseconds renames members such as duration_us and latency_ns, and converts
// their values. A quote within a string is escaped, so that no text matches a member.
func inMilliseconds(raw []byte) []byte {
	raw = timesMember().ReplaceAllFunc(raw, func(m []byte) []byte {
		part := timesMember().FindSubmatch(m)
		inner := wholeNumber().ReplaceAllFunc(part[2], func(n []byte) []byte { return append([]byte(":"), milliseconds(n[1:], 1e6)...) })
		return []byte(`"` + string(part[1]) + `_ms":{` + string(inner) + "}")
	})
	return timeMember().ReplaceAllFunc(raw, func(m []byte) []byte {
		part := timeMember().FindSubmatch(m)
		per := 1e3
		if string(part[1]) == "took" {
			part[1] = []byte("duration") // one word for one thing
		}
		if string(part[2]) == "ns" {
			per = 1e6
		}
		return []byte(`"` + string(part[1]) + `_ms":` + milliseconds(part[3], per))
	})
}

func milliseconds(n []byte, per float64) string {
	v, err := strconv.ParseInt(string(n), 10, 64)
	if err != nil {
		return string(n)
	}
	return strconv.FormatFloat(float64(v)/per, 'f', -1, 64)
}
