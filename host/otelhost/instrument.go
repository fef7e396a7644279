package otelhost

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/instrument"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// scopeName names what makes the spans and metrics.
const scopeName = "github.com/agenthost/agenthost/host/otelhost"

// Options are the optional parts of an instrument.
type Options struct {
	TracerProvider trace.TracerProvider // default: no spans
	MeterProvider  metric.MeterProvider // default: no metrics

	// Content puts the content of conversations on spans: messages, instructions, arguments
	// and results of tools, and the texts of errors as clients read them. It is personal
	// data: whoever reads the traces reads it, and deleting a tenant does not delete it there.
	Content bool
	// Redact returns the form of each text of content that may be on a span. It is called by
	// many goroutines at once; nil keeps the texts.
	Redact func(text string) string

	// Tenants puts the tenant on metrics too, and the names of tenants' own plugins. Spans
	// always have the tenant.
	Tenants bool

	// ToModels sends the trace context to the servers of models, as the header traceparent.
	ToModels bool
	// ToHost reports whether the trace context goes out with a request of sandboxed code to
	// that host, which has its port if the address has one; nil is never. A plugin that
	// sends the header itself keeps its own.
	ToHost func(host string) bool
}

// Instrument makes spans and metrics. It is safe for concurrent use.
type Instrument struct {
	opts   Options
	tracer trace.Tracer
	meters *meters
	w3c    propagation.TraceContext
}

var _ host.Instrument = (*Instrument)(nil)

// New returns an instrument. Code internal if the provider refuses a metric.
func New(opts *Options) (*Instrument, error) {
	i := &Instrument{}
	if opts != nil {
		i.opts = *opts
	}
	if i.opts.TracerProvider == nil {
		i.opts.TracerProvider = noop.NewTracerProvider()
	}
	if i.opts.MeterProvider == nil {
		i.opts.MeterProvider = metricnoop.NewMeterProvider()
	}
	if i.opts.Redact == nil {
		i.opts.Redact = func(text string) string { return text }
	}
	i.tracer = i.opts.TracerProvider.Tracer(scopeName)
	var err error
	if i.meters, err = newMeters(i.opts.MeterProvider.Meter(scopeName)); err != nil {
		return nil, host.Errorf(host.Internal, "make the metrics of a host: %w", err)
	}
	return i, nil
}

// Begin implements [host.Instrument].
func (i *Instrument) Begin(ctx context.Context, op instrument.Operation) (context.Context, func(error)) {
	var o observed
	switch op := op.(type) {
	case *instrument.Run:
		o = i.run(op)
	case *instrument.Agent:
		o = i.agent(op)
	case *instrument.Model:
		o = i.model(op)
	case *instrument.Tool:
		o = i.tool(op)
	case *instrument.Processor:
		o = i.processor(op)
	case *instrument.Provider:
		o = i.provider(op)
	case *instrument.Router:
		o = i.router(op)
	case *instrument.Sandbox:
		o = i.sandbox(op)
	case *instrument.HTTP:
		o = i.http(op)
	default: // a kind of a later version
		return ctx, nil
	}
	ctx, span := i.tracer.Start(ctx, o.name, trace.WithSpanKind(o.kind), trace.WithAttributes(o.attributes...))
	ctx = i.propagate(ctx, op)
	return ctx, func(err error) {
		attributes, measure := o.end()
		if span.IsRecording() {
			span.SetAttributes(attributes...)
			i.setError(span, err, op)
		}
		measure(ctx, codeOf(err))
		span.End()
	}
}

// observed is what spans and metrics need of an operation.
type observed struct {
	name       string
	kind       trace.SpanKind
	attributes []attribute.KeyValue

	// end returns the attributes that are known at the end, and the function that measures
	// the operation; code is "" if it has not failed.
	end func() (_ []attribute.KeyValue, measure func(ctx context.Context, code string))
}

// propagate has the trace context sent by the operation, where that is allowed.
func (i *Instrument) propagate(ctx context.Context, op instrument.Operation) context.Context {
	switch op := op.(type) {
	case *instrument.Model:
		if i.opts.ToModels {
			header := http.Header{}
			i.w3c.Inject(ctx, propagation.HeaderCarrier(header))
			return modelhttp.WithHeader(ctx, header)
		}
	case *instrument.HTTP:
		if i.opts.ToHost != nil && i.opts.ToHost(op.Host) {
			op.Header = http.Header{}
			i.w3c.Inject(ctx, propagation.HeaderCarrier(op.Header))
		}
	}
	return ctx
}

func codeOf(err error) string {
	if err == nil {
		return ""
	}
	return string(host.CodeOf(err))
}

// setError marks the span of an operation that has failed.
func (i *Instrument) setError(span trace.Span, err error, op instrument.Operation) {
	if err == nil {
		return
	}
	code := codeOf(err)
	span.SetAttributes(attribute.String(keyError, code))
	text := code
	if i.opts.Content {
		text = i.opts.Redact(fault.ForClient(err, runOf(op)).Message)
	}
	span.SetStatus(codes.Error, text)
}

func runOf(op instrument.Operation) string {
	switch op := op.(type) {
	case *instrument.Run:
		return op.Scope.Run
	case *instrument.Agent:
		return op.Scope.Run
	case *instrument.Model:
		return op.Scope.Run
	case *instrument.Tool:
		return op.Scope.Run
	}
	return ""
}
