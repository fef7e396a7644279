package httpapi

import (
	"context"
	"net/http"
)

// Observe is called when a request begins, and returns the context of the request, made of
// the request's own, and a function that is called once with the status of the answer when
// it is complete: 0 if there is none. route is the pattern of the path, "" for a path that is
// none, so that its values are few. It is called by many goroutines at once.
type Observe func(r *http.Request, route string) (_ context.Context, answered func(status int))

// observe calls the observers of a request, whose answer goes through w.
func (a *API) observe(w *statusWriter, r *http.Request, of *route) (*http.Request, func()) {
	if len(a.options.Observe) == 0 {
		return r, func() {}
	}
	ends := make([]func(int), 0, len(a.options.Observe))
	for _, observe := range a.options.Observe {
		ctx, end := observe(r, of.path)
		r = r.WithContext(ctx)
		ends = append(ends, end)
	}
	return r, func() {
		for i := len(ends) - 1; i >= 0; i-- {
			ends[i](w.status)
		}
	}
}

// statusWriter takes note of the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int // 0 before the answer has begun
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *statusWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
