package mcpclient

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host/fault"
)

// Definition is a server's description of a tool: the words and the schema that models read,
// and the hints that a host may act on.
type Definition struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema"`
	ReadOnly    bool            `json:"read_only,omitempty"`
	Idempotent  bool            `json:"idempotent,omitempty"`
}

// Digest returns the digest of the definition. Two definitions of one digest are the same to
// a model and to the host.
func (d *Definition) Digest() string {
	raw, err := json.Marshal(d)
	if err != nil { // a schema is JSON that was decoded before
		return ""
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// definitionOf reads a tool of a list. The schema gets the order of members that
// encoding/json gives it, whatever the server's was.
func definitionOf(t *mcp.Tool) (Definition, error) {
	schema, err := json.Marshal(t.InputSchema)
	switch {
	case err != nil:
		return Definition{}, fault.Errorf(fault.InvalidArgument, "the schema is not JSON")
	case len(schema) > maxSchemaBytes:
		return Definition{}, fault.Errorf(fault.ResourceExhausted, "the schema is %d bytes long, more than %d", len(schema), maxSchemaBytes)
	}
	d := Definition{Name: t.Name, Description: plainText(t.Description, maxDescriptionBytes), Schema: schema}
	if a := t.Annotations; a != nil {
		d.ReadOnly, d.Idempotent = a.ReadOnlyHint, a.IdempotentHint
	}
	return d, nil
}

// The bounds of one definition.
const (
	maxOwnName          = 256 // bytes of a server's name for a tool
	maxDescriptionBytes = 4 << 10
	maxSchemaBytes      = 64 << 10
)
