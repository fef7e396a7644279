//go:build wasip1

// Command echo is a plugin built with Extism's Go PDK: it answers with what it
// was sent. Benchmarks call it beside our own echo.
package main

import "github.com/extism/go-pdk"

//go:wasmexport agenthost_tool
func tool() int32 {
	pdk.Output(pdk.Input())
	return 0
}

func main() {}
