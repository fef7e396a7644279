package pdk

// The functions of this file pass bytes beside the JSON of host operations, and read them
// behind it, where the functions of the same names without Bytes write base64. A plugin that
// calls one of them imports host_call_bytes, and a host that lacks it refuses the plugin.

// bytesPiece is how much of an artifact goes in one host operation.
const bytesPiece = 512 << 10

// A BytesHost is a [Host] that takes bytes beside requests.
type BytesHost interface {
	// HostCallBytes runs the operation op. Where the request or the response has bytes, it has
	// the number of them, and they stand in data, or beside.
	HostCallBytes(op string, request Raw, data []byte) (response Raw, beside []byte, err *Error)
}

// HostCallBytes runs any host operation with the bytes of its request in data, and those of
// its response in beside: a field of bytes is the number of them. Of several, as in the values
// of kv.list, each stands behind the one before. The response is valid until the handler
// returns. Errors are *Error.
func HostCallBytes(op string, request Raw, data []byte) (response Raw, beside []byte, err error) {
	h, ok := host.(BytesHost)
	if !ok {
		return "", nil, Errorf(Unimplemented, "host operation %s: the host takes no bytes beside requests", op)
	}
	response, beside, e := h.HostCallBytes(op, request, data)
	if e != nil {
		return "", nil, e
	}
	return response, beside, nil
}

// WriteArtifactBytes is [WriteArtifact] without base64.
func WriteArtifactBytes(name, mediaType string, data []byte) (digest string, err error) {
	upload := ""
	for {
		piece := data[:min(len(data), bytesPiece)]
		data = data[len(piece):]
		var w Writer
		w.BeginObject().key("name").Str(name)
		w.member("media_type", mediaType)
		w.member("upload", upload)
		w.key("data").Int(int64(len(piece))).key("last").Bool(len(data) == 0)
		response, _, err := HostCallBytes("artifact.write", borrowed(w.EndObject()), piece)
		if err != nil {
			return "", err
		}
		if len(data) == 0 {
			digest, _ = response.Get("digest").Str()
			return digest, nil
		}
		upload, _ = response.Get("upload").Str()
	}
}

// ReadArtifactBytes is [ReadArtifact] without base64.
func ReadArtifactBytes(name string) (data []byte, mediaType string, err error) {
	for {
		var w Writer
		w.BeginObject().key("name").Str(name).key("offset").Int(int64(len(data))).key("length").Int(bytesPiece)
		response, piece, err := HostCallBytes("artifact.read", borrowed(w.EndObject()), nil)
		if err != nil {
			return nil, "", err
		}
		size, _ := response.Get("size").Int()
		if len(piece) == 0 && int64(len(data)) < size {
			return nil, "", Errorf(Internal, "the host gave %d bytes of an artifact of %d", len(data), size)
		}
		if data == nil {
			data = piece
		} else {
			data = append(data, piece...)
		}
		if int64(len(data)) >= size {
			mediaType, _ = response.Get("media_type").Str()
			return data, mediaType, nil
		}
	}
}

// KVGetBytes is [KVGet] without base64.
func KVGetBytes(key string) (KVItem, error) {
	var w Writer
	w.BeginObject().key("key").Str(key)
	response, value, err := HostCallBytes("kv.get", borrowed(w.EndObject()), nil)
	if err != nil {
		return KVItem{}, err
	}
	revision, _ := response.Get("revision").Int()
	return KVItem{Key: key, Value: value, Revision: revision}, nil
}

// KVPutBytes is [KVPut] without base64.
func KVPutBytes(key string, value []byte, opts KVPutOptions) (revision int64, err error) {
	var w Writer
	w.BeginObject().key("key").Str(key).key("value").Int(int64(len(value)))
	opts.append(&w)
	response, _, err := HostCallBytes("kv.put", borrowed(w.EndObject()), value)
	if err != nil {
		return 0, err
	}
	revision, _ = response.Get("revision").Int()
	return revision, nil
}

// FetchBytes is [Fetch] without base64.
func FetchBytes(req HTTPRequest) (*HTTPResponse, error) {
	var w Writer
	w.BeginObject().key("body").Int(int64(len(req.Body)))
	req.append(&w)
	response, body, err := HostCallBytes("http.fetch", borrowed(w.EndObject()), req.Body)
	if err != nil {
		return nil, err
	}
	out := httpHead(response)
	out.Body = body
	return out, nil
}
