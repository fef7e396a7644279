package pdk

// Typed is a pointer to a struct that has a JSON Schema and reads itself from JSON. The program
// pdkgen writes both methods for structs whose comments ask for it.
type Typed[T any] interface {
	*T
	// PDKSchema returns the JSON Schema of the struct.
	PDKSchema() Raw
	// PDKRead reads the struct from an object. Absent members and null leave fields alone. The
	// error names the member that does not fit, and has code [InvalidArgument].
	PDKRead(value Raw) error
}

// TypedTool registers a tool whose arguments are a struct: its schema is that of the struct, and
// the handler is given the struct. A comment with the line "pdk:typed" above a struct, and
//
//	//go:generate go run github.com/agenthost/agenthost/pdk/go/pdkgen
//
// in a file of its package, have go generate write the methods that Typed asks for.
//
// Arguments that do not fit fail the call with [InvalidArgument], which names the member. Strings of
// in are valid until the handler returns.
func TypedTool[T any, P Typed[T]](name, description string, handler func(c *Call, in *T) error) *ToolSpec {
	return TypedToolOf[T, P](Registered(), name, description, handler)
}

// TypedToolOf is TypedTool for a plugin other than the registered one.
func TypedToolOf[T any, P Typed[T]](p *Plugin, name, description string, handler func(c *Call, in *T) error) *ToolSpec {
	in := new(T) // one for all calls: a module runs one at a time
	return p.Tool(name, description, string(P(in).PDKSchema()), func(c *Call) error {
		*in = *new(T)
		if c.Arguments != "" {
			if err := P(in).PDKRead(c.Arguments); err != nil {
				return AtMember("arguments", err)
			}
		}
		return handler(c, in)
	})
}

// ReadConfig reads a configuration, such as Call.Config, into a struct. An absent one leaves its
// fields zero.
func ReadConfig[T any, P Typed[T]](config Raw) (T, error) {
	var out T
	if config == "" {
		return out, nil
	}
	return out, AtMember("config", P(&out).PDKRead(config))
}

// given reports whether a value is there and not null.
func given(value Raw) bool { return value != "" && value[0] != 'n' }

// A misfit is the error of a value that does not fit where it is.
type misfit struct{ at, is string }

// Error says which member does not fit, and why.
func (e *misfit) Error() string {
	if e.at == "" {
		return "the value " + e.is
	}
	return e.at + " " + e.is
}

// Unwrap returns the error that the host is given.
func (e *misfit) Unwrap() error { return &Error{Code: InvalidArgument, Message: e.Error()} }

// misread returns the error of a value that does not fit its field.
func misread(value Raw, want string) error {
	return &misfit{is: "is " + value.described() + ", not " + want}
}

// AtMember names the member in which an error is, for methods that pdkgen writes: nothing is
// done for values that fit.
func AtMember(name string, err error) error {
	e, ok := err.(*misfit)
	switch {
	case !ok:
		return err
	case e.at == "" || e.at[0] == '[':
		e.at = name + e.at
	default:
		e.at = name + "." + e.at
	}
	return e
}

// The functions below read one value each into a field, for methods that pdkgen writes. null
// leaves the field alone.

// ReadString reads a string.
func ReadString[S ~string](value Raw, to *S) error {
	if !given(value) {
		return nil
	}
	if n := len(value); n >= 2 && value[0] == '"' && value[n-1] == '"' { // the usual one has no escapes
		if end, ascii := plainRun(string(value), 1); ascii && end == n-1 {
			*to = S(value[1:end])
			return nil
		}
	}
	text, ok := value.Str()
	if !ok {
		return misread(value, "a string")
	}
	*to = S(text)
	return nil
}

// ReadInt reads an integer of any spelling that fits.
func ReadInt[I ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32](value Raw, to *I) error {
	if !given(value) {
		return nil
	}
	n, ok := value.Int()
	if !ok || int64(I(n)) != n {
		return misread(value, "an integer that fits")
	}
	*to = I(n)
	return nil
}

// ReadFloat reads a number.
func ReadFloat[F ~float32 | ~float64](value Raw, to *F) error {
	if !given(value) {
		return nil
	}
	x, ok := value.Float()
	if !ok {
		return misread(value, "a number that a float holds")
	}
	*to = F(x)
	return nil
}

// ReadBool reads true or false.
func ReadBool[B ~bool](value Raw, to *B) error {
	if !given(value) {
		return nil
	}
	b, ok := value.Bool()
	if !ok {
		return misread(value, "true or false")
	}
	*to = B(b)
	return nil
}

// ReadRaw keeps any value.
func ReadRaw(value Raw, to *Raw) error {
	*to = value
	return nil
}

// ReadObject reads a struct.
func ReadObject[T any, P Typed[T]](value Raw, to *T) error {
	if !given(value) {
		return nil
	}
	return P(to).PDKRead(value)
}

// ReadPointer reads a value that may be absent: its field is nil without it.
func ReadPointer[T any](value Raw, to **T, read func(value Raw, to *T) error) error {
	if !given(value) {
		return nil
	}
	*to = new(T)
	return read(value, *to)
}

// ReadList reads an array.
func ReadList[T any](value Raw, to *[]T, read func(value Raw, to *T) error) error {
	if !given(value) {
		return nil
	}
	if value.Kind() != KindArray {
		return misread(value, "an array")
	}
	list := []T{}
	for element := range value.Elements() {
		var one T
		if err := read(element, &one); err != nil {
			return AtMember("[]", err)
		}
		list = append(list, one)
	}
	*to = list
	return nil
}

// ReadMap reads an object of values of one type. Its names may be kept.
func ReadMap[T any](value Raw, to *map[string]T, read func(value Raw, to *T) error) error {
	if !given(value) {
		return nil
	}
	if value.Kind() != KindObject {
		return misread(value, "an object")
	}
	all := map[string]T{}
	for name, member := range value.Members() {
		name = string([]byte(name))
		var one T
		if err := read(member, &one); err != nil {
			return AtMember(name, err)
		}
		all[name] = one
	}
	*to = all
	return nil
}

// CheckObject refuses a value that is no object. It is called before the members are read.
func CheckObject(value Raw) error {
	if value.Kind() != KindObject {
		return misread(value, "an object")
	}
	return nil
}
