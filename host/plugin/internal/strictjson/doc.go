// Package strictjson reads JSON that a plugin has written into Go values. It takes
// bytes of unknown origin and a pointer to a struct, and fills the struct or returns an
// error that names the fault and the path of the member.
//
// It is stricter than encoding/json where two readers of one document could differ:
// names are case-sensitive, null is no object, and invalid UTF-8 is refused. It bounds
// lists, and a long document neither holds a core for long ([UnmarshalContext]) nor is
// it scanned again for each level.
package strictjson
