package modeltest

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/internal/longtest"
)

// LineBytes is the longest line of a stream that a model reads.
const LineBytes = 4 << 20

// maxTimesLine is how many bytes may be allocated for one line, as a multiple of its
// length: the line itself, grown, its values copied out of it, and the answer.
const maxTimesLine = 10

// Line returns a line of a stream that is about as long as a line may be: begin, as
// many elements as fit, separated by commas, and end. A %d in element is its number.
func Line(begin, element, end string) string {
	room := LineBytes - 64 - len(begin) - len(end)
	if !strings.Contains(element, "%d") {
		return begin + strings.Repeat(element+",", room/(len(element)+1)-1) + element + end
	}
	var b strings.Builder
	for i := 0; b.Len()+len(element) < room; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strings.ReplaceAll(element, "%d", strconv.Itoa(i)))
	}
	return begin + b.String() + end
}

// CheckLines reports each answer whose reading allocates more than a fixed multiple
// of its length. Answers come in pieces of 4 kB. They are whole streams by the name of
// their long part. Unless tests do all of their work one answer in three is read, and under
// the race detector one in four: one goroutine reads each of them, and the detector makes
// 4 MiB take seconds.
func (n New) CheckLines(t *testing.T, answers map[string]string) {
	t.Helper()
	every := longtest.Alone(4, longtest.Rounds(3, 1))
	for i, name := range slices.Sorted(maps.Keys(answers)) {
		if i%every != 0 {
			continue
		}
		answer := answers[name]
		t.Run(name, func(t *testing.T) {
			m := n(t, modelhttp.Options{HTTPClient: &http.Client{Transport: &streamer{answer: []byte(answer)}}, MaxRetries: -1})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range m.Generate(t.Context(), Question("hi")) {
			}
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; took > maxTimesLine*uint64(len(answer)) {
				t.Errorf("an answer of %d bytes took %d, more than %d times as many", len(answer), took, maxTimesLine)
			}
		})
	}
}

// streamer answers each request with one stream.
type streamer struct{ answer []byte }

// RoundTrip implements http.RoundTripper.
func (s *streamer) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	body := io.NopCloser(&pieces{src: bytes.NewReader(s.answer)})
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body, Request: r}, nil
}

// pieces reads as much at once as a network does.
type pieces struct{ src io.Reader }

func (p *pieces) Read(b []byte) (int, error) { return p.src.Read(b[:min(len(b), 4<<10)]) }
