package otelhost

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Request begins the span of a request to a server, which continues the trace that the
// request's header traceparent names, and returns its context, and the function to call
// with the status when it is answered. route is the pattern of the path, "" for a path that is
// none. It is an observer of package httpapi.
func (i *Instrument) Request(r *http.Request, route string) (context.Context, func(status int)) {
	began := time.Now()
	method := methodOf(r.Method)
	name := method
	if route != "" {
		name += " " + route
	}
	ctx := i.w3c.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := i.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String(keyMethod, method), attribute.String(keyRoute, route)))
	return ctx, func(status int) {
		code := ""
		if status >= http.StatusInternalServerError {
			code = strconv.Itoa(status)
			span.SetAttributes(attribute.String(keyError, code))
			span.SetStatus(codes.Error, "")
		}
		span.SetAttributes(attribute.Int(keyStatus, status))
		i.meters.request.record(ctx, time.Since(began).Seconds(), keyMethod, method, keyRoute, route, keyStatus, strconv.Itoa(status), keyError, code)
		span.End()
	}
}

// methodOf returns a method of HTTP, or _OTHER: clients may send any word.
func methodOf(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return method
	}
	return "_OTHER"
}
