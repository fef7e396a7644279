package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
)

// hardSchema asks for about a million checks of one value.
func hardSchema() json.RawMessage {
	var b strings.Builder
	for i := range 20 {
		fmt.Fprintf(&b, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	return json.RawMessage(`{"$ref":"#/$defs/d0","$defs":{` + b.String() + `"d20":{"type":"string"}}}`)
}

func TestErrorsOfSchemasHaveCodes(t *testing.T) {
	if _, err := host.CompileSchema(json.RawMessage(`{"type":7}`)); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("CompileSchema: %v, want code %s", err, host.InvalidArgument)
	}
	s, err := host.CompileSchema(hardSchema())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(json.RawMessage(`7`)); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("Validate: %v, want code %s", err, host.InvalidArgument)
	}
	if err := s.Validate(json.RawMessage(`"seven"`)); host.CodeOf(err) != host.ResourceExhausted {
		t.Errorf("Validate: %v, want code %s", err, host.ResourceExhausted)
	}
	left := errors.New("the caller has left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(left)
	if err := s.ValidateContext(ctx, json.RawMessage(`"seven"`)); host.CodeOf(err) != host.Canceled || !errors.Is(err, left) || !errors.Is(err, context.Canceled) {
		t.Errorf("ValidateContext: %v, want code %s and its cause", err, host.Canceled)
	}
	if _, err := host.CompileSchemaContext(ctx, hardSchema()); host.CodeOf(err) != host.Canceled || !errors.Is(err, left) {
		t.Errorf("CompileSchemaContext: %v, want code %s and its cause", err, host.Canceled)
	}
}
