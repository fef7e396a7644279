package pdk

// A Header is one header field. In a request its value is Value, or Prefix and
// the secret named Secret, which the host fills in and the plugin never sees.
type Header struct {
	Name, Value    string
	Prefix, Secret string
}

// An HTTPRequest is a request for [Fetch].
type HTTPRequest struct {
	Method    string // GET if empty
	URL       string
	Headers   []Header
	Body      []byte
	TimeoutMS int64 // 0 is the rest of the call's time
	Redirects int   // how many to follow; none if 0: then a redirect is the response
}

// An HTTPResponse is a server's answer. Names of headers are in lower case.
type HTTPResponse struct {
	Status  int
	Headers []Header
	Body    []byte
	URL     string // that answered, if redirects were to be followed
}

// Header returns the first header of a name in lower case, "" if absent.
func (r *HTTPResponse) Header(name string) string {
	for _, h := range r.Headers {
		if h.Name == name {
			return h.Value
		}
	}
	return ""
}

// Fetch sends a request. Any status is a response, also one of 400 or more.
// [PermissionDenied] for what was not granted, [Unavailable] for a server that
// cannot be reached.
func Fetch(req HTTPRequest) (*HTTPResponse, error) {
	var w Writer
	w.BeginObject()
	req.append(&w)
	if len(req.Body) > 0 {
		w.key("body").Bytes(req.Body)
	}
	response, err := HostCall("http.fetch", borrowed(w.EndObject()))
	if err != nil {
		return nil, err
	}
	return httpResponse(response)
}

// append writes the members of a request but its body.
func (req *HTTPRequest) append(w *Writer) {
	w.member("method", req.Method)
	w.key("url").Str(req.URL)
	if len(req.Headers) > 0 {
		w.key("headers").BeginArray()
		for _, h := range req.Headers {
			h.append(w)
		}
		w.EndArray()
	}
	if req.TimeoutMS != 0 {
		w.key("timeout_ms").Int(req.TimeoutMS)
	}
	if req.Redirects != 0 {
		w.key("redirects").Int(int64(req.Redirects))
	}
}

func (h *Header) append(w *Writer) {
	w.BeginObject().key("name").Str(h.Name)
	if h.Secret != "" {
		w.member("prefix", h.Prefix)
		w.key("secret").Str(h.Secret)
	} else {
		w.key("value").Str(h.Value)
	}
	w.EndObject()
}

func httpResponse(r Raw) (*HTTPResponse, error) {
	out := httpHead(r)
	body, ok := r.Get("body").Bytes()
	if !ok {
		return nil, Errorf(Internal, "the host's body is not base64")
	}
	out.Body = body
	return out, nil
}

// httpHead reads a response but its body.
func httpHead(r Raw) *HTTPResponse {
	out := &HTTPResponse{}
	status, _ := r.Get("status").Int()
	out.Status = int(status)
	for h := range r.Get("headers").Elements() {
		var header Header
		header.Name, _ = h.Get("name").Str()
		header.Value, _ = h.Get("value").Str()
		out.Headers = append(out.Headers, header)
	}
	out.URL, _ = r.Get("url").Str()
	return out
}
