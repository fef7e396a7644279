package metrics

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// Request measures a request to the host: it returns the request's context, and the function
// to call with the status when it is answered. It is an observer of package httpapi. route is
// the pattern of the path, "" for a path that is none.
func (c *Collector) Request(r *http.Request, route string) (context.Context, func(status int)) {
	began, method := time.Now(), methodOf(r.Method)
	return r.Context(), func(status int) {
		took := time.Since(began).Seconds()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.requests.add(1, route, method, strconv.Itoa(status))
		c.requestSeconds.add(took, route, method)
	}
}

// methodOf returns a method of HTTP, or "other": clients may send any word.
func methodOf(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return other
}
