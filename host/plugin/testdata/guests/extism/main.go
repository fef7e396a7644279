//go:build wasip1

// Command extism is a plugin built with Extism's Go PDK, for benchmarks and for
// tests that compare engines.
package main

import (
	"errors"
	"strings"

	"github.com/extism/go-pdk"
)

// It answers with what it was sent.
//
//go:wasmexport agenthost_tool
func tool() int32 {
	pdk.Output(pdk.Input())
	return 0
}

//go:wasmexport count_vowels
func countVowels() int32 {
	count := 0
	for _, r := range pdk.InputString() {
		if strings.ContainsRune("aeiouAEIOU", r) {
			count++
		}
	}
	total := pdk.GetVarInt("total") + count
	pdk.SetVarInt("total", total)
	greeting, _ := pdk.GetConfig("greeting")
	pdk.Log(pdk.LogInfo, "counted")
	if err := pdk.OutputJSON(map[string]any{"count": count, "total": total, "greeting": greeting}); err != nil {
		pdk.SetError(err)
		return 1
	}
	return 0
}

//go:wasmexport refuse
func refuse() int32 {
	pdk.SetError(errors.New("not " + pdk.InputString()))
	return 1
}

//go:wasmexport break_down
func breakDown() int32 { panic(pdk.InputString()) }

func main() {}
