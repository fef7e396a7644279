package abi

import "strings"

// Version is the version of the JSON contract.
const Version = 1

// ImportModule is the import module of the host's functions: its name is the version of
// the calling convention.
const ImportModule = "agenthost_v1"

// Initialize is the export that is called once, before anything else, if it is there.
const Initialize = "_initialize"

// Export is an entry point of a plugin.
type Export int

// The entry points. Numbers from ExportCount are free for functions of other contracts.
const (
	Describe Export = iota
	Tool
	Process
	Route
	Provide
	Observe
	ExportCount
)

// ExportPrefix begins the name of every entry point.
const ExportPrefix = "agenthost_"

var exportNames = [ExportCount]string{
	"agenthost_describe", "agenthost_tool", "agenthost_process", "agenthost_route", "agenthost_provide", "agenthost_observe",
}

// String returns the name of the exported function.
func (e Export) String() string { return exportNames[e] }

// ExportNamed finds an entry point by its name without the prefix, such as tool.
func ExportNamed(name string) (e Export, ok bool) {
	for e := range ExportCount {
		if strings.TrimPrefix(e.String(), ExportPrefix) == name {
			return e, true
		}
	}
	return 0, false
}
