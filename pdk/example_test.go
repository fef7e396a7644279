package kits_test

import (
	"fmt"
	"io/fs"

	kits "github.com/agenthost/agenthost/pdk"
)

// The kit for Go guests is a module's worth of files.
func Example() {
	files, err := fs.Glob(kits.Files, "go/doc.go")
	fmt.Println(files, err)
	// Output: [go/doc.go] <nil>
}
