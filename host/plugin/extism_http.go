package plugin

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/strictjson"
)

// An Extism plugin's HTTP requests are host operations like any other: they go
// through http.fetch, its permission and its checks.

// extismRequest is a request as Extism's kits write it.
type extismRequest struct {
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
}

// http_request(request, body) -> body of the response, 0 if it is empty. The
// blocks handed over are freed. Extism has no way to tell a plugin that a request
// failed: the call ends with the error.
func extismHTTPRequest(inst *instance, stack []uint64) {
	x := inst.extism
	x.status, x.headers = 0, nil
	req, err := readExtismRequest(inst.text(stack[0]), inst.text(stack[1]))
	x.free(stack[0])
	x.free(stack[1])
	if err != nil {
		inst.meter.Stop(inst.httpError(err))
	}
	raw, err := inst.operate("http.fetch", req)
	if err != nil {
		inst.meter.Stop(inst.httpError(err))
	}
	var res fetchResponse
	if err := strictjson.Unmarshal(raw, &res); err != nil {
		inst.meter.Stop(inst.httpError(host.Errorf(host.Internal, "read the response: %v", err)))
	}
	if limit := inst.plugin.module.extism.HTTPBytes; limit > 0 && len(res.Body) > limit {
		inst.meter.Stop(inst.httpError(host.Errorf(host.ResourceExhausted, "the response has %d bytes, more than max_http_response_bytes of %d", len(res.Body), limit)))
	}
	x.status, x.headers = res.Status, headerObject(res.Headers)
	stack[0] = inst.block(res.Body)
}

// httpError keeps the code and the hint of err.
func (inst *instance) httpError(err error) error {
	e := *host.AsError(err)
	e.Message, e.Err = inst.meter.Subject()+": http_request: "+e.Message, err
	return &e
}

// extismIgnored are headers that Extism lets plugins set and does not send: they are
// the host's, and a plugin that was written for Extism may have them.
var extismIgnored = []string{"host", "content-length", "transfer-encoding", "trailer"}

// readExtismRequest makes a request of http.fetch of one of Extism's, which follows
// redirects.
func readExtismRequest(raw, body []byte) ([]byte, error) {
	var in extismRequest
	if err := strictjson.Unmarshal(raw, &in); err != nil {
		return nil, host.Errorf(host.InvalidArgument, "read the request: %v", err)
	}
	out := fetchRequest{Method: strings.ToUpper(in.Method), URL: in.URL, Body: body, Redirects: maxHTTPRedirects}
	if out.Method == "" {
		out.Method = http.MethodGet
	}
	for _, name := range slices.Sorted(maps.Keys(in.Headers)) {
		if slices.Contains(extismIgnored, strings.ToLower(name)) {
			continue
		}
		out.Headers = append(out.Headers, fetchHeader{Name: name, Value: in.Headers[name]})
	}
	return json.Marshal(out)
}

// headerObject is the response's headers as Extism's kits read them: an object
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

// http_status_code() -> the last response's, 0 before one
func extismHTTPStatus(inst *instance, stack []uint64) { stack[0] = uint64(inst.extism.status) }

// http_headers() -> JSON object, 0 before a response
func extismHTTPHeaders(inst *instance, stack []uint64) { stack[0] = inst.block(inst.extism.headers) }
