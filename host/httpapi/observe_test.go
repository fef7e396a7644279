package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/keys"
)

type outerKey struct{}

func TestObserversAreAroundEveryRequest(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	observer := func(name string) httpapi.Observe {
		return func(r *http.Request, route string) (context.Context, func(int)) {
			outer, _ := r.Context().Value(outerKey{}).(string)
			return context.WithValue(r.Context(), outerKey{}, outer+name), func(status int) {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, fmt.Sprint(outer+name, " ", r.Method, " ", route, " ", status))
			}
		}
	}
	refuse := func(r *http.Request) (*keys.Principal, error) {
		if got := r.Context().Value(outerKey{}); got != "ab" {
			t.Errorf("the request's context is of %v", got)
		}
		return nil, host.Errorf(host.Unauthenticated, "no")
	}
	api, err := httpapi.New(refuse, &httpapi.Options{Observe: []httpapi.Observe{observer("a"), observer("b")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, request := range []string{"GET /v1/me", "GET /health", "DELETE /v1/me", "GET /secret/path"} {
		var method, path string
		fmt.Sscan(request, &method, &path)
		api.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, path, nil))
	}
	want := []string{
		"ab GET /v1/me 401", "a GET /v1/me 401", "ab GET /health 200", "a GET /health 200",
		"ab DELETE  405", "a DELETE  405", "ab GET  404", "a GET  404",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("observed %q,\nwant %q", seen, want)
	}
}
