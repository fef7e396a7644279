package host

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/agenthost/agenthost/host/internal/schema"
)

// Schema is a compiled JSON Schema (2020-12 unless it says otherwise). It is
// immutable and safe for concurrent use.
type Schema struct {
	schema *schema.Schema
	told   json.RawMessage // as models see it
	strict bool            // told keeps the rules of strict providers
}

// compiled returns the schema in the form that checks values, nil for none.
func (s *Schema) compiled() *schema.Schema {
	if s == nil {
		return nil
	}
	return s.schema
}

// JSON returns the schema as models see it. It must not be changed.
func (s *Schema) JSON() json.RawMessage { return s.told }

// CompileSchema compiles a JSON Schema. It may refer to itself but to no other
// document. Errors have code invalid_argument.
func CompileSchema(raw json.RawMessage) (*Schema, error) {
	return CompileSchemaContext(context.Background(), raw)
}

// CompileSchemaContext is CompileSchema that ends with its context, between two
// pieces of the work; the error has code canceled or deadline_exceeded then.
func CompileSchemaContext(ctx context.Context, raw json.RawMessage) (*Schema, error) {
	s, err := schema.Compile(ctx, raw)
	if err != nil {
		return nil, schemaError(err)
	}
	return &Schema{schema: s, told: raw}, nil
}

// Validate returns an error of code invalid_argument that says which values do
// not fit and how. JSON that readers might understand differently (a member
// given twice, a number beyond every type) does not fit, nor does JSON that is
// nested deeper than 512. Code resource_exhausted says that the schema takes too
// long to tell: one validation takes less than 200 ms of processor time, whatever
// the schema and the value are, and lets other goroutines go first meanwhile.
func (s *Schema) Validate(raw json.RawMessage) error {
	return s.ValidateContext(context.Background(), raw)
}

// ValidateContext is Validate that ends with its context; the error has code
// canceled or deadline_exceeded then.
func (s *Schema) ValidateContext(ctx context.Context, raw json.RawMessage) error {
	return schemaError(s.schema.Validate(ctx, raw))
}

// ValidateUnseen is Validate for values that the caller must not see: its error
// names the places that do not fit and the rules that they break, and no values.
func (s *Schema) ValidateUnseen(raw json.RawMessage) error {
	return schemaError(s.schema.ValidateUnseen(context.Background(), raw))
}

// schemaError gives an error of compiling a schema or of validating its code.
func schemaError(err error) error {
	var ended *schema.EndedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &ended):
		return &Error{Code: CodeOf(ended.Reason), Message: err.Error(), Err: ended.Cause}
	case errors.As(err, new(schema.TooManyChecksError)):
		return Errorf(ResourceExhausted, "%w", err)
	}
	return Errorf(InvalidArgument, "%w", err)
}
