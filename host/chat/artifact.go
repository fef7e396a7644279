package chat

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// Artifact is a product of a run: a named or unnamed list of parts.
type Artifact struct {
	Name     string
	Parts    []Part
	Metadata map[string]json.RawMessage
}

// AppendJSON appends {"name"?,"parts","metadata"?}.
func (a *Artifact) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	if a.Name != "" {
		dst = append(dst, `"name":`...)
		dst = append(jsondoc.AppendString(dst, a.Name), ',')
	}
	dst = append(dst, `"parts":[`...)
	for i, p := range a.Parts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendPartJSON(dst, p)
	}
	dst = append(dst, ']')
	if a.Metadata != nil {
		dst = append(dst, `,"metadata":`...)
		dst = jsondoc.AppendMembers(dst, a.Metadata)
	}
	return append(dst, '}')
}

// MarshalJSON writes {"name"?,"parts","metadata"?}.
func (a *Artifact) MarshalJSON() ([]byte, error) { return a.AppendJSON(nil), nil }

// UnmarshalJSON reads what MarshalJSON writes; code invalid_argument for
// anything else.
func (a *Artifact) UnmarshalJSON(b []byte) error {
	if err := jsondoc.Check(b); err != nil {
		return fault.Errorf(fault.InvalidArgument, "read artifact: %w", err)
	}
	var out Artifact
	var seen jsondoc.MemberSet
	err := jsondoc.EachMember(bytes.Clone(b), func(name string, v []byte) error {
		if err := seen.Add(name, "name", "parts", "metadata"); err != nil {
			return err
		}
		switch name {
		case "name":
			return jsondoc.DecodeString(name, v, &out.Name)
		case "parts":
			return decodeParts(v, &out.Parts)
		case "metadata":
			return metadataValue(name, v, &out.Metadata)
		}
		return nil
	})
	if err != nil {
		return fault.Errorf(fault.InvalidArgument, "read artifact: %w", err)
	}
	*a = out
	return nil
}

// PutArtifact adds a to list and returns the list: a named artifact replaces the one of
// its name, in its place.
func PutArtifact(list []Artifact, a Artifact) []Artifact {
	for i := range list {
		if a.Name != "" && list[i].Name == a.Name {
			list[i] = a
			return list
		}
	}
	return append(list, a)
}

// Content returns the artifact as bytes: those of a lone media part, the text of
// text parts, and the JSON of the artifact otherwise. The bytes may be shared with
// the artifact and must not be changed.
func (a *Artifact) Content() (data []byte, mediaType string) {
	if len(a.Parts) == 1 {
		if m, ok := a.Parts[0].(*Media); ok && m.URL == "" {
			return m.Data, m.MediaType
		}
	}
	var text strings.Builder
	for _, p := range a.Parts {
		t, ok := p.(*Text)
		if !ok {
			return a.AppendJSON(nil), "application/json"
		}
		text.WriteString(t.Text)
	}
	return []byte(text.String()), "text/plain; charset=utf-8"
}

// Digest returns "sha256:" and 64 hexadecimal digits: the digest of Content, by
// which plugins name an artifact.
func (a *Artifact) Digest() string {
	data, _ := a.Content()
	return ContentDigest(data)
}

// ContentDigest returns the digest of an artifact with that content.
func ContentDigest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}
