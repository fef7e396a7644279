package kits_test

import (
	"fmt"
	"io/fs"

	kits "github.com/agenthost/agenthost/pdk"
)

// The kit for Go guests is a module's worth of files.
func Example() {
	files, err := fs.Glob(kits.Files, "go/pdk/doc.go")
	fmt.Println(files, err)
	// Output: [go/pdk/doc.go] <nil>
}
