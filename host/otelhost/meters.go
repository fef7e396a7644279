package otelhost

import (
	"context"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// MaxSeries is how many sets of attributes a metric has: names come from tenants and from
// providers of models. Beyond it one more set stands for the rest, whose names are "other".
const MaxSeries = 1_000

const other = "other"

// meters are the metrics of an instrument.
type meters struct {
	tokens, duration, firstChunk, cost, operation, request series
}

// The boundaries that the conventions ask for.
var (
	tokenBounds  = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
	secondBounds = []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	firstBounds  = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}
	partBounds   = []float64{0.00001, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60}
	httpBounds   = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}
)

func newMeters(m metric.Meter) (*meters, error) {
	out := &meters{}
	tokens, err := m.Int64Histogram(metricTokens, metric.WithUnit("{token}"), metric.WithDescription("Tokens of a call of a model."), metric.WithExplicitBucketBoundaries(tokenBounds...))
	if err != nil {
		return nil, err
	}
	out.tokens.addTokens = tokens.Record
	for _, h := range []struct {
		of         *series
		name, text string
		bounds     []float64
	}{
		{&out.duration, metricDuration, "Time of runs, agents, calls of models and calls of tools.", secondBounds},
		{&out.firstChunk, metricFirstChunk, "Time until the first piece of a model's answer.", firstBounds},
		{&out.operation, metricOperation, "Time of processors, providers, routers, sandboxed code and its requests.", partBounds},
		{&out.request, metricRequest, "Time of requests to the server.", httpBounds},
	} {
		made, err := m.Float64Histogram(h.name, metric.WithUnit("s"), metric.WithDescription(h.text), metric.WithExplicitBucketBoundaries(h.bounds...))
		if err != nil {
			return nil, err
		}
		h.of.add = made.Record
	}
	cost, err := m.Float64Counter(metricCost, metric.WithDescription("Cost of calls of models by the table of prices, in the currency."))
	if err != nil {
		return nil, err
	}
	out.cost.add = func(ctx context.Context, n float64, opts ...metric.RecordOption) {
		list := make([]metric.AddOption, len(opts))
		for i, o := range opts {
			list[i] = o.(metric.AddOption)
		}
		cost.Add(ctx, n, list...)
	}
	return out, nil
}

// series is a metric with its sets of attributes, each made once.
type series struct {
	add       func(context.Context, float64, ...metric.RecordOption)
	addTokens func(context.Context, int64, ...metric.RecordOption)

	mu   sync.Mutex
	made map[string]metric.MeasurementOption
}

// record adds a value with the attributes that are not empty; labels are keys and values.
func (s *series) record(ctx context.Context, v float64, labels ...string) {
	s.add(ctx, v, s.of(labels))
}

func (s *series) recordTokens(ctx context.Context, n int, labels ...string) {
	if n > 0 {
		s.addTokens(ctx, int64(n), s.of(labels))
	}
}

// fixed are the attributes whose values are few and not names.
var fixed = map[string]bool{keyOperation: true, keyTokenType: true, keyKind: true, keyError: true, keyPurpose: true}

// of returns the set of attributes.
func (s *series) of(labels []string) metric.MeasurementOption {
	key := strings.Join(labels, "\x00")
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.made[key]; ok {
		return o
	}
	set := make([]attribute.KeyValue, 0, len(labels)/2)
	full := len(s.made) >= MaxSeries
	for i := 0; i+1 < len(labels); i += 2 {
		value := labels[i+1]
		if full && !fixed[labels[i]] && value != "" {
			value = other
		}
		if value != "" {
			set = append(set, attribute.String(labels[i], value))
		}
	}
	o := metric.WithAttributeSet(attribute.NewSet(set...))
	if full {
		return o
	}
	if s.made == nil {
		s.made = map[string]metric.MeasurementOption{}
	}
	s.made[key] = o
	return o
}
