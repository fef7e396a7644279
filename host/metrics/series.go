package metrics

import (
	"maps"
	"slices"
	"strings"
)

// prefix begins the name of every metric.
const prefix = "agenthost_"

// other is every label of the series of what there is no room for.
const other = "other"

// labels are the values of a metric's labels; those that it does not have are "".
type labels [4]string

func toLabels(values []string) (l labels) {
	copy(l[:], values)
	return l
}

// metric is what counters and histograms have in common.
type metric struct {
	name, help string
	names      []string
}

// room returns the labels under which something is counted.
func (m *metric) room(known bool, series int, l labels) labels {
	if known || series < maxSeries {
		return l
	}
	for i := range m.names {
		l[i] = other
	}
	return l
}

// without returns the labels without the first, if that is the tenant.
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

// summed returns the values, with those of all tenants together.
func (c *counter) summed(tenants bool) map[labels]float64 {
	if tenants {
		return maps.Clone(c.values)
	}
	sums := map[labels]float64{}
	for l, v := range c.values {
		sums[c.without(l)] += v
	}
	return sums
}

// bounds are those of the buckets of every histogram, in seconds.
var bounds = [...]float64{0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}

// spread is how observations are spread over the buckets; the last is beyond all
// bounds.
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

// sorted returns the labels of series in their order.
func sorted[V any](values map[labels]V) []labels {
	return slices.SortedFunc(maps.Keys(values), func(a, b labels) int { return slices.Compare(a[:], b[:]) })
}

// text returns labels as they are written, without those that have no value.
func (m *metric) text(l labels, more ...string) string {
	var parts []string
	for i, name := range m.names {
		if l[i] != "" {
			parts = append(parts, name+`="`+escapes.Replace(strings.ToValidUTF8(l[i], "\uFFFD"))+`"`)
		}
	}
	if parts = append(parts, more...); len(parts) == 0 {
		return ""
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// escapes are those of the exposition format.
var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
