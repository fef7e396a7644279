package extism

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// A plugin's HTTP requests are host operations like any other: they pass through
// http.fetch, its permission and its checks.

// request is a request as Extism's kits write it.
type request struct {
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
}

// fetchRequest and fetchResponse are the parts of those of http.fetch that Extism uses.
type (
	fetchRequest struct {
		Method    string        `json:"method"`
		URL       string        `json:"url"`
		Headers   []fetchHeader `json:"headers,omitempty"`
		Body      []byte        `json:"body,omitempty"`
		Redirects int           `json:"redirects,omitempty"`
	}
	fetchResponse struct {
		Status  int
		Headers []fetchHeader
		Body    []byte
		URL     string
	}
	fetchHeader struct {
		Name  string `json:"name"`
		Value string `json:"value,omitempty"`
	}
)

// followedRedirects is how many redirects a request follows: as many as http.fetch does.
const followedRedirects = 10

// fetch sends a request and returns the block of the response's body, 0 if it is empty. The
// blocks handed over are freed. Extism has no way to tell a plugin that a request failed:
// the call ends with the error.
func (s *State) fetch(head, body uint64) uint64 {
	s.call.status, s.call.headers = 0, nil
	req, err := fetchRequestOf(s.memory.read(head), s.memory.read(body))
	s.free(head)
	s.free(body)
	if err != nil {
		s.stopFetch(err)
	}
	raw, err := s.host.Operate("http.fetch", req)
	if err != nil {
		s.stopFetch(err)
	}
	var res fetchResponse
	if err := jsondoc.Unmarshal(raw, &res); err != nil {
		s.stopFetch(host.Errorf(host.Internal, "read the response: %v", err))
	}
	if limit := s.opts.HTTPBytes; limit > 0 && len(res.Body) > limit {
		s.stopFetch(host.Errorf(host.ResourceExhausted, "the response has %d bytes, more than max_http_response_bytes of %d", len(res.Body), limit))
	}
	s.call.status, s.call.headers = res.Status, headerObject(res.Headers)
	return s.memory.put(res.Body)
}

// stopFetch ends the call with an error that has the code and the hint of err.
func (s *State) stopFetch(err error) {
	e := *fault.AsError(err)
	e.Message, e.Err = s.memory.meter.Subject()+": http_request: "+e.Message, err
	s.memory.meter.Stop(&e)
}

// ignoredHeaders are headers that Extism lets plugins set and does not send: they are the
// host's, and a plugin that was written for Extism may have them.
var ignoredHeaders = []string{"host", "content-length", "transfer-encoding", "trailer"}

// fetchRequestOf makes a request of http.fetch of one of Extism's, which follows redirects.
func fetchRequestOf(raw, body []byte) ([]byte, error) {
	var in request
	if err := jsondoc.Unmarshal(raw, &in); err != nil {
		return nil, host.Errorf(host.InvalidArgument, "read the request: %v", err)
	}
	out := fetchRequest{Method: strings.ToUpper(in.Method), URL: in.URL, Body: body, Redirects: followedRedirects}
	if out.Method == "" {
		out.Method = http.MethodGet
	}
	for _, name := range slices.Sorted(maps.Keys(in.Headers)) {
		if slices.Contains(ignoredHeaders, strings.ToLower(name)) {
			continue
		}
		out.Headers = append(out.Headers, fetchHeader{Name: name, Value: in.Headers[name]})
	}
	return json.Marshal(out)
}

// headerObject returns the response's headers as Extism's kits read them: an object
// of lower-case names, with the values of one that comes more than once joined
// by commas.
func headerObject(headers []fetchHeader) []byte {
	all := map[string]string{}
	for _, h := range headers {
		name := strings.ToLower(h.Name)
		if before, ok := all[name]; ok {
			h.Value = before + "," + h.Value
		}
		all[name] = h.Value
	}
	b, err := json.Marshal(all)
	if err != nil {
		return nil // text always has a form
	}
	return b
}
