package pdk

// artifactPiece is how much of an artifact goes in one host operation.
const artifactPiece = 256 << 10

// WriteArtifact makes an artifact of the run, from a tool, and returns its
// digest. Larger ones go in pieces.
func WriteArtifact(name, mediaType string, data []byte) (digest string, err error) {
	upload := ""
	for {
		piece := data[:min(len(data), artifactPiece)]
		data = data[len(piece):]
		var w Writer
		w.BeginObject().key("name").Str(name)
		w.member("media_type", mediaType)
		w.member("upload", upload)
		w.key("data").Bytes(piece).key("last").Bool(len(data) == 0)
		response, err := HostCall("artifact.write", borrowed(w.EndObject()))
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

// ReadArtifact returns an artifact of the session by its name: one that the run has
// made, or else one of an earlier turn. A missing artifact is [NotFound].
func ReadArtifact(name string) (data []byte, mediaType string, err error) {
	for {
		var w Writer
		w.BeginObject().key("name").Str(name).key("offset").Int(int64(len(data))).key("length").Int(artifactPiece)
		response, err := HostCall("artifact.read", borrowed(w.EndObject()))
		if err != nil {
			return nil, "", err
		}
		piece, ok := response.Get("data").Bytes()
		size, _ := response.Get("size").Int()
		if !ok || len(piece) == 0 && int64(len(data)) < size {
			return nil, "", Errorf(Internal, "the host gave %d bytes of an artifact of %d", len(data), size)
		}
		data = append(data, piece...)
		if int64(len(data)) >= size {
			mediaType, _ = response.Get("media_type").Str()
			return data, mediaType, nil
		}
	}
}
