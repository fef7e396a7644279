// Pdkgen writes JSON Schemas and decoders for the structs of a plugin, which tools take their
// arguments as: see pdk.TypedTool. It is run by go generate in the plugin's directory:
//
//	//go:generate go run github.com/agenthost/agenthost/pdk/go/pdkgen
//
// A struct whose comment has the line "pdk:typed" gets the methods PDKSchema and PDKRead, in the
// file pdk_typed.go, and so do the structs of its fields. They use no reflection: arguments that
// are read into a struct cost a module less than those read one by one, and link nothing.
//
// Fields are exported, and of the types string, bool, integers, floats, pdk.Raw (any JSON), structs
// of the package, pointers, slices and maps by string of these, and types of the package that are
// one of the first four. The tag json names the member; a pointer and one with omitempty may be
// absent. Comments of fields are their descriptions. Further tags: enum:"a,b", min:"1", max:"10"
// (of numbers), and minLength, maxLength, minItems, maxItems.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// generatedFile is the file that pdkgen writes.
const generatedFile = "pdk_typed.go"

func main() {
	dir := "."
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	text, err := generate(dir)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, generatedFile), text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pdkgen:", err)
		os.Exit(1)
	}
}
