package metrics

import (
	"slices"
	"strings"
)

// prefix begins the name of every metric.
const prefix = "agenthost_"

// other is every label of the series that counts beyond maxSeries.
const other = "other"

// labels are the values of a metric's labels. A label without a value is "", which
// is how Prometheus reads a label that is not there.
type labels [4]string

// toLabels makes labels of any strings; bytes that are not UTF-8 are replaced.
func toLabels(values []string) (l labels) {
	for i, v := range values {
		l[i] = strings.ToValidUTF8(v, "\uFFFD")
	}
	return l
}

// metric is the common part of counters and histograms.
type metric struct {
	name, help string
	names      []string // of the labels
}

// room returns the labels of the series that counts for l.
func (m *metric) room(known bool, series int, l labels) labels {
	if known || series < maxSeries {
		return l
	}
	for i := range m.names {
		l[i] = other
	}
	return l
}

// without returns the labels without the tenant, if the first label is that.
func (m *metric) without(l labels) labels {
	if m.names[0] == "tenant" {
		l[0] = ""
	}
	return l
}

type counter struct {
	metric
	values map[labels]float64
}

func newCounter(name, help string, names ...string) *counter {
	return &counter{metric{prefix + name, help, names}, map[labels]float64{}}
}

func (c *counter) add(n float64, values ...string) {
	l := toLabels(values)
	_, known := c.values[l]
	c.values[c.room(known, len(c.values), l)] += n
}

// summed returns the values, by tenant or over all of them.
func (c *counter) summed(tenants bool) map[labels]float64 {
	sums := make(map[labels]float64, len(c.values))
	for l, v := range c.values {
		if !tenants {
			l = c.without(l)
		}
		sums[l] += v
	}
	return sums
}

// bounds are the upper ends of the buckets of every histogram of runs, in seconds.
var bounds = [...]float64{0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}

// spread counts observations by bucket; the last bucket is beyond all bounds.
type spread struct {
	counts [len(bounds) + 1]uint64
	sum    float64
}

func (s *spread) merge(t *spread) {
	for i, n := range t.counts {
		s.counts[i] += n
	}
	s.sum += t.sum
}

type histogram struct {
	metric
	values map[labels]*spread
}

func newHistogram(name, help string, names ...string) *histogram {
	return &histogram{metric{prefix + name, help, names}, map[labels]*spread{}}
}

func (h *histogram) add(v float64, values ...string) {
	l := toLabels(values)
	s := h.values[l]
	if s == nil {
		l = h.room(false, len(h.values), l)
		if s = h.values[l]; s == nil {
			s = &spread{}
			h.values[l] = s
		}
	}
	i, _ := slices.BinarySearch(bounds[:], v)
	s.counts[i]++
	s.sum += v
}

// summed returns copies of the spreads, by tenant or over all of them.
func (h *histogram) summed(tenants bool) map[labels]*spread {
	sums := map[labels]*spread{}
	for l, s := range h.values {
		if !tenants {
			l = h.without(l)
		}
		if sums[l] == nil {
			sums[l] = &spread{}
		}
		sums[l].merge(s)
	}
	return sums
}
