package metrics

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// WriteOptions are the optional parts of writing.
type WriteOptions struct {
	// Tenants makes a series for each tenant, which may be many; without it they
	// are summed.
	Tenants bool
}

// contentType is that of the exposition format.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// Handler serves what Write writes.
func (c *Collector) Handler(opts *WriteOptions) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_ = c.Write(w, opts) // the scraper has left
	})
}

// Write writes everything in the text format of Prometheus. The only error is
// w's.
func (c *Collector) Write(w io.Writer, opts *WriteOptions) error {
	_, err := w.Write(c.exposition(opts != nil && opts.Tenants))
	return err
}

// exposition returns the text. Runs wait while it is made, and not while it is
// sent.
func (c *Collector) exposition(tenants bool) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b bytes.Buffer
	fmt.Fprintf(&b, "# HELP %sruns_in_progress Runs that have begun and not ended.\n# TYPE %[1]sruns_in_progress gauge\n%[1]sruns_in_progress %d\n", prefix, len(c.progress))
	for _, m := range []*counter{c.runs, c.tokens, c.questions, c.modelCalls, c.retries, c.fallbacks, c.throttled, c.tools, c.toolRetries, c.processors} {
		m.write(&b, tenants)
	}
	for _, m := range []*histogram{c.runSeconds, c.firstToken, c.modelSeconds, c.toolSeconds} {
		m.write(&b, tenants)
	}
	return b.Bytes()
}

func (m *metric) head(b *bytes.Buffer, kind string) {
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %[1]s %[3]s\n", m.name, m.help, kind)
}

func (c *counter) write(b *bytes.Buffer, tenants bool) {
	c.head(b, "counter")
	values := c.summed(tenants)
	for _, l := range sorted(values) {
		fmt.Fprintf(b, "%s%s %s\n", c.name, c.text(l), number(values[l]))
	}
}

func (h *histogram) write(b *bytes.Buffer, tenants bool) {
	h.head(b, "histogram")
	values := h.summed(tenants)
	for _, l := range sorted(values) {
		s, n := values[l], uint64(0)
		for i, count := range s.counts {
			n += count
			le := "+Inf"
			if i < len(bounds) {
				le = number(bounds[i])
			}
			fmt.Fprintf(b, "%s_bucket%s %d\n", h.name, h.text(l, `le="`+le+`"`), n)
		}
		fmt.Fprintf(b, "%s_sum%s %s\n%[1]s_count%[2]s %[4]d\n", h.name, h.text(l), number(s.sum), n)
	}
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
