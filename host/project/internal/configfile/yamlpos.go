package configfile

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/internal/termtext"
)

// KeyPath is a path into the configuration: the names of map entries, and indices
// of lists.
type KeyPath []any

func Keys(path ...any) KeyPath { return path }

// To returns the place below p.
func (p KeyPath) To(path ...any) KeyPath { return slices.Concat(p, path) }

// Mistake is the cause of an error about a place in a configuration.
type Mistake struct {
	File         string
	Line, Column int    // from 1; 0 if the place is not known
	Message      string // without the place
	Err          error
}

func (m *Mistake) Error() string { return m.place() + ": " + m.Message }

// Unwrap returns the cause.
func (m *Mistake) Unwrap() error { return m.Err }

func (m *Mistake) place() string {
	if m.Line == 0 {
		return m.File
	}
	return fmt.Sprintf("%s:%d:%d", m.File, m.Line, m.Column)
}

// mistake returns the mistake at a token; nil is one of the whole file.
func (c *Config) mistake(tk *token.Token, message string, err error) *Mistake {
	m := &Mistake{File: c.Name, Message: message, Err: err}
	if tk != nil && tk.Position != nil {
		m.Line, m.Column = tk.Position.Line, tk.Position.Column
	}
	return m
}

// ErrorAt is an error about a place in the configuration. It wraps a *[Mistake].
func (c *Config) ErrorAt(at KeyPath, format string, args ...any) *host.Error {
	return c.errorAt(c.tokenOf(at), format, args...)
}

func (c *Config) errorAt(tk *token.Token, format string, args ...any) *host.Error {
	err := fmt.Errorf(format, args...)
	return host.Errorf(host.InvalidArgument, "%w", c.mistake(tk, err.Error(), err))
}

// Unknown is the error for a name that refers to nothing.
func (c *Config) Unknown(at KeyPath, kind, name string, have []string) *host.Error {
	e := c.ErrorAt(at, "%s %q does not exist", kind, name)
	if near := termtext.Nearest(name, have); near != "" {
		return e.WithHint("did you mean %q?", near)
	}
	if len(have) == 0 {
		return e
	}
	return e.WithHint("there are: %s", strings.Join(have, ", "))
}

// Wrap adds a place of the configuration to an error, unless the error names one. The
// code becomes invalid_argument where the configuration is at fault: it names a missing
// file, or a plugin exceeds one of its limits while it is loaded.
func (c *Config) Wrap(err error, at KeyPath) error {
	if err == nil {
		return nil
	}
	e := *fault.AsError(err)
	var named *Mistake
	if !errors.As(err, &named) {
		named = c.mistake(c.tokenOf(at), e.Message, err)
		e.Message, err = named.Error(), named
	}
	switch e.Code {
	case host.NotFound, host.AlreadyExists, host.ResourceExhausted, host.DeadlineExceeded:
		e.Code = host.InvalidArgument
	}
	e.Err = err
	return &e
}

// tokenOf returns the token of a place, as far as that exists; nil without any of it.
func (c *Config) tokenOf(at KeyPath) *token.Token {
	file, err := parser.ParseBytes(c.Text, 0)
	if err != nil || len(file.Docs) == 0 {
		return nil
	}
	node := file.Docs[0].Body
	var found *token.Token
	for _, key := range at {
		next, tk := child(node, key)
		if tk == nil {
			break
		}
		node, found = next, tk
	}
	return found
}

// child returns the value at a key or index of a node, and the token of the key.
func child(n ast.Node, key any) (ast.Node, *token.Token) {
	switch n := plain(n).(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			if tk := v.Key.GetToken(); tk != nil && tk.Value == key {
				return v.Value, tk
			}
		}
	case *ast.SequenceNode:
		if i, ok := key.(int); ok && i < len(n.Values) {
			return n.Values[i], n.Values[i].GetToken()
		}
	}
	return nil, nil
}

// plain takes the anchor and the tag off a node.
func plain(n ast.Node) ast.Node {
	for {
		switch v := n.(type) {
		case *ast.AnchorNode:
			n = v.Value
		case *ast.TagNode:
			n = v.Value
		default:
			return n
		}
	}
}

func scalar(n ast.Node) string {
	if s, ok := plain(n).(ast.ScalarNode); ok {
		return fmt.Sprint(s.GetValue())
	}
	return n.String()
}

// badValue is the error of a value that does not fit.
func badValue(n ast.Node, format string, args ...any) error {
	return &yaml.SyntaxError{Message: fmt.Sprintf(format, args...), Token: n.GetToken()}
}

// yamlError adds the position in the file to a decoder's error, and a suggestion for an
// unknown key.
func (c *Config) yamlError(err error) error {
	var at yaml.Error
	if !errors.As(err, &at) {
		return c.errorAt(nil, "%w", err)
	}
	var unknown *yaml.UnknownFieldError
	if errors.As(err, &unknown) {
		return c.unknownKey(unknown.GetToken())
	}
	return c.errorAt(at.GetToken(), "%s", c.shapeOf(at))
}

// shapeOf rewrites the decoder's message about Go types in the configuration's words.
func (c *Config) shapeOf(err yaml.Error) string {
	var wrong *yaml.TypeError
	if !errors.As(err, &wrong) {
		return err.GetMessage()
	}
	return fmt.Sprintf("%s is due here, not %s", Shape(wrong.DstType), Shape(wrong.SrcType))
}

func Shape(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Map, reflect.Struct:
		return "a map"
	case reflect.Slice:
		return "a list"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "a whole number"
	case reflect.String:
		return "text"
	}
	return t.String()
}

func (c *Config) unknownKey(tk *token.Token) error {
	name := tk.Value
	in := c.structAt(tk)
	if hint := replacementOf(in, name); hint != "" {
		return c.errorAt(tk, "the key %q exists no more", name).WithHint("%s", hint)
	}
	e := c.errorAt(tk, "unknown key %q", name)
	have := fieldsOf(in)
	if near := termtext.Nearest(name, have); near != "" {
		return e.WithHint("did you mean %q?", near)
	}
	return e.WithHint("the keys here are: %s", strings.Join(have, ", "))
}

// replacementOf says what to write instead of a key that earlier versions had in a struct
// of the configuration; "" if they had none of that name.
func replacementOf(in reflect.Type, name string) string {
	if in == reflect.TypeFor[History]() && name == "address_env" {
		return "a command's --data says where conversations are kept: remove the key, and write --data env:NAME with the name that stood here, " +
			"or set AGENTHOST_DATA to the address; the tables that it has made are moved by: agenthost data copy --history"
	}
	return ""
}

// structAt returns the type that has the key of a token among its keys; nil if there is
// none.
func (c *Config) structAt(tk *token.Token) reflect.Type {
	file, err := parser.ParseBytes(c.Text, 0)
	if err != nil || len(file.Docs) == 0 {
		return nil
	}
	return structBeside(file.Docs[0].Body, reflect.TypeFor[Config](), tk)
}

// structBeside goes down a document and the type it is decoded into, to the map that has
// the token as a key, and returns the map's type; nil if it is not below n.
func structBeside(n ast.Node, t reflect.Type, tk *token.Token) reflect.Type {
	switch n := plain(n).(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			if at := v.Key.GetToken(); at != nil && at.Position.Offset == tk.Position.Offset {
				return t
			}
			if found := structBeside(v.Value, typeOf(t, v.Key.GetToken().Value), tk); found != nil {
				return found
			}
		}
	case *ast.SequenceNode:
		for _, v := range n.Values {
			if found := structBeside(v, typeOf(t, ""), tk); found != nil {
				return found
			}
		}
	}
	return nil
}

// typeOf returns the type of a member of a map or struct, or of a list's items.
func typeOf(t reflect.Type, key string) reflect.Type {
	if t == nil {
		return nil
	}
	switch t.Kind() {
	case reflect.Map, reflect.Slice, reflect.Pointer:
		return t.Elem()
	case reflect.Struct:
		for f := range t.Fields() {
			if f.Tag.Get("yaml") == key {
				return f.Type
			}
		}
	}
	return nil
}

func fieldsOf(t reflect.Type) []string {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for f := range t.Fields() {
		if tag := f.Tag.Get("yaml"); tag != "" {
			names = append(names, tag)
		}
	}
	return names
}

// ToJSON turns another YAML file of a project into JSON; name is that of the file, for
// the error. Code invalid_argument.
func ToJSON(name string, text []byte) ([]byte, error) {
	raw, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "%s: %s", name, yaml.FormatError(err, false, false))
	}
	return raw, nil
}
