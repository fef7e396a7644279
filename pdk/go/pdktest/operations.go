package pdktest

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

// An Item is a value in the host's KV.
type Item struct {
	Value    string
	Revision int64
}

// An HTTPRequest is a request that a plugin sends, as the host gets it: secrets
// are not filled in.
type HTTPRequest struct {
	Method, URL string
	Headers     []pdk.Header
	Body        string
}

// A Job is work that a plugin has left for after the turn.
type Job struct {
	Tool           string
	Payload        pdk.Raw
	IdempotencyKey string
	DelayMS        int64
}

// An Artifact is one that a plugin has made, or reads.
type Artifact struct {
	MediaType string
	Data      string
}

// operation returns the function for an operation that works on a host's fields,
// nil for an unknown operation.
func (h *Host) operation(op string) func(pdk.Raw) (pdk.Raw, *pdk.Error) {
	switch op {
	case "kv.get":
		return h.kvGet
	case "kv.put":
		return h.kvPut
	case "kv.delete":
		return h.kvDelete
	case "kv.list":
		return h.kvList
	case "http.fetch":
		if h.Fetch != nil {
			return h.fetch
		}
	case "model.generate":
		if h.Generate != nil {
			return h.Generate
		}
	case "queue.send":
		return h.send
	case "step.begin":
		return h.stepBegin
	case "step.end":
		return h.stepEnd
	case "artifact.write":
		return h.artifactWrite
	case "artifact.read":
		return h.artifactRead
	case "provider_state.get":
		return h.ownGet
	case "provider_state.put":
		return h.ownPut
	}
	return nil
}

func (h *Host) ownGet(pdk.Raw) (pdk.Raw, *pdk.Error) {
	value := h.Own
	if value == "" {
		value = "null"
	}
	var w pdk.Writer
	return w.BeginObject().Key("value").Raw(value).Key("revision").Int(h.OwnRevision).EndObject().Value(), nil
}

func (h *Host) ownPut(request pdk.Raw) (pdk.Raw, *pdk.Error) {
	value := request.Get("value")
	if value == "" {
		return "", pdk.Errorf(pdk.InvalidArgument, "the request has no value")
	}
	if at := integer(request, "revision", -1); at >= 0 && at != h.OwnRevision {
		return "", pdk.Errorf(pdk.Conflict, "the state of the provider is at revision %d, not %d", h.OwnRevision, at)
	}
	h.revisions++
	h.Own, h.OwnRevision = value, h.revisions
	if value == "null" {
		h.Own, h.OwnRevision = "", 0
	}
	var w pdk.Writer
	return w.BeginObject().Key("revision").Int(h.OwnRevision).EndObject().Value(), nil
}

func digest(data string) string {
	sum := sha256.Sum256([]byte(data))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func str(r pdk.Raw, name string) string {
	s, _ := r.Get(name).Str()
	return s
}

func integer(r pdk.Raw, name string, absent int64) int64 {
	if n, ok := r.Get(name).Int(); ok {
		return n
	}
	return absent
}

func (h *Host) kvGet(request pdk.Raw) (pdk.Raw, *pdk.Error) {
	key := str(request, "key")
	item, ok := h.KV[key]
	if !ok {
		return "", pdk.Errorf(pdk.NotFound, "there is no key %q", key)
	}
	var w pdk.Writer
	return w.BeginObject().Key("value").Bytes([]byte(item.Value)).Key("revision").Int(item.Revision).EndObject().Value(), nil
}

// at fails unless a key is at the revision that a request names.
func (h *Host) at(request pdk.Raw) (key string, err *pdk.Error) {
	key = str(request, "key")
	if key == "" {
		return "", pdk.Errorf(pdk.InvalidArgument, "the request has no key")
	}
	if at := integer(request, "revision", -1); at >= 0 && at != h.KV[key].Revision {
		return "", pdk.Errorf(pdk.Conflict, "the key %q is at revision %d, not %d", key, h.KV[key].Revision, at)
	}
	return key, nil
}

func (h *Host) kvPut(request pdk.Raw) (pdk.Raw, *pdk.Error) {
	key, err := h.at(request)
	if err != nil {
		return "", err
	}
	value, ok := request.Get("value").Bytes()
	if !ok {
		return "", pdk.Errorf(pdk.InvalidArgument, "the value is not base64")
	}
	if h.KV == nil {
		h.KV = map[string]Item{}
	}
	h.revisions++
	revision := max(h.revisions, h.KV[key].Revision+1)
	h.revisions = revision
	h.KV[key] = Item{string(value), revision}
	var w pdk.Writer
	return w.BeginObject().Key("revision").Int(revision).EndObject().Value(), nil
}

func (h *Host) kvDelete(request pdk.Raw) (pdk.Raw, *pdk.Error) {
	key, err := h.at(request)
	if err != nil {
		return "", err
	}
	delete(h.KV, key)
	return "{}", nil
}

func (h *Host) kvList(request pdk.Raw) (pdk.Raw, *pdk.Error) {
	prefix, after := str(request, "prefix"), str(request, "after")
	values, _ := request.Get("values").Bool()
	limit, last := integer(request, "limit", 100), ""
	var w pdk.Writer
	w.BeginObject().Key("entries").BeginArray()
	for _, key := range slices.Sorted(maps.Keys(h.KV)) {
		if !strings.HasPrefix(key, prefix) || key <= after {
			continue
		}
		if limit--; limit < 0 {
			return w.EndArray().Key("next").Str(last).EndObject().Value(), nil
		}
		last = key
		w.BeginObject().Key("key").Str(key).Key("revision").Int(h.KV[key].Revision)
		if values {
			w.Key("value").Bytes([]byte(h.KV[key].Value))
		}
		w.EndObject()
	}
	return w.EndArray().EndObject().Value(), nil
}

func (h *Host) fetch(request pdk.Raw) (pdk.Raw, *pdk.Error) {
	req := HTTPRequest{Method: str(request, "method"), URL: str(request, "url")}
	if req.Method == "" {
		req.Method = "GET"
	}
	for header := range request.Get("headers").Elements() {
		req.Headers = append(req.Headers, pdk.Header{
			Name: str(header, "name"), Value: str(header, "value"), Prefix: str(header, "prefix"), Secret: str(header, "secret"),
		})
	}
	if body, ok := request.Get("body").Bytes(); ok {
		req.Body = string(body)
	}
	response, err := h.Fetch(req)
	if err != nil {
		return "", err
	}
	var w pdk.Writer
	w.BeginObject().Key("status").Int(int64(response.Status)).Key("headers").BeginArray()
	for _, header := range response.Headers {
		w.BeginObject().Key("name").Str(strings.ToLower(header.Name)).Key("value").Str(header.Value).EndObject()
	}
	w.EndArray().Key("body").Bytes(response.Body)
	if integer(request, "redirects", 0) > 0 {
		w.Key("url").Str(response.URL)
	}
	return w.EndObject().Value(), nil
}

func (h *Host) send(request pdk.Raw) (pdk.Raw, *pdk.Error) {
	job := Job{
		Tool: str(request, "handler"), Payload: request.Get("payload"),
		IdempotencyKey: str(request, "idempotency_key"), DelayMS: integer(request, "delay_ms", 0),
	}
	for _, sent := range h.Jobs {
		if job.IdempotencyKey != "" && sent.IdempotencyKey == job.IdempotencyKey {
			return "", pdk.Errorf(pdk.AlreadyExists, "a job with the key %q was sent before", job.IdempotencyKey)
		}
	}
	h.Jobs = append(h.Jobs, job)
	var w pdk.Writer
	return w.BeginObject().Key("id").Str(strconv.Itoa(len(h.Jobs))).EndObject().Value(), nil
}

func (h *Host) stepBegin(request pdk.Raw) (pdk.Raw, *pdk.Error) {
	name := str(request, "name")
	if name == "" {
		return "", pdk.Errorf(pdk.InvalidArgument, "the request has no name")
	}
	var w pdk.Writer
	if result, done := h.Steps[name]; done {
		return w.BeginObject().Key("done").Bool(true).Key("result").Raw(result).EndObject().Value(), nil
	}
	if h.begun == nil {
		h.begun = map[string]bool{}
	}
	h.begun[name] = true
	return w.BeginObject().Key("done").Bool(false).EndObject().Value(), nil
}

func (h *Host) stepEnd(request pdk.Raw) (pdk.Raw, *pdk.Error) {
	name, result := str(request, "name"), request.Get("result")
	if result == "" {
		return "", pdk.Errorf(pdk.InvalidArgument, "the request has no result")
	}
	if !h.begun[name] {
		return "", pdk.Errorf(pdk.FailedPrecondition, "step %q has not begun", name)
	}
	delete(h.begun, name)
	if h.Steps == nil {
		h.Steps = map[string]pdk.Raw{}
	}
	h.Steps[name] = result
	return "{}", nil
}

func (h *Host) artifactWrite(request pdk.Raw) (pdk.Raw, *pdk.Error) {
	name, upload := str(request, "name"), str(request, "upload")
	data, ok := request.Get("data").Bytes()
	if name == "" || !ok {
		return "", pdk.Errorf(pdk.InvalidArgument, "the request needs a name, and data in base64")
	}
	if h.uploads == nil {
		h.uploads = map[string]*Artifact{}
	}
	a := h.uploads[upload]
	switch {
	case upload == "":
		upload = "upload-" + name
		a = &Artifact{MediaType: str(request, "media_type")}
		h.uploads[upload] = a
	case a == nil:
		return "", pdk.Errorf(pdk.NotFound, "there is no upload %q", upload)
	}
	a.Data += string(data)
	var w pdk.Writer
	if last, _ := request.Get("last").Bool(); !last {
		return w.BeginObject().Key("upload").Str(upload).EndObject().Value(), nil
	}
	delete(h.uploads, upload)
	if h.Artifacts == nil {
		h.Artifacts = map[string]Artifact{}
	}
	h.Artifacts[name] = *a
	return w.BeginObject().Key("digest").Str(digest(a.Data)).EndObject().Value(), nil
}

func (h *Host) artifactRead(request pdk.Raw) (pdk.Raw, *pdk.Error) {
	name, wanted := str(request, "name"), str(request, "digest")
	for key, a := range h.Artifacts {
		if key != name && digest(a.Data) != wanted {
			continue
		}
		from := max(0, min(integer(request, "offset", 0), int64(len(a.Data))))
		to := min(from+max(0, integer(request, "length", 256<<10)), int64(len(a.Data)))
		var w pdk.Writer
		w.BeginObject().Key("data").Bytes([]byte(a.Data[from:to]))
		w.Key("size").Int(int64(len(a.Data))).Key("digest").Str(digest(a.Data)).Key("media_type").Str(a.MediaType)
		return w.EndObject().Value(), nil
	}
	return "", pdk.Errorf(pdk.NotFound, "the session has no artifact %q", name+wanted)
}
