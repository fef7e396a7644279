// Package abi has the JSON contract between the host and its plugins, as pdk/ABI.md
// describes it: the entry points of a plugin, the operations of the host, and manifests
// with their schemas. In go the bytes of a guest, out come values of the host, and the
// other way round.
//
// It promises that bytes which break the contract are an error that names the fault, that
// the work on them is bounded, and that the same value is the same bytes on every machine.
// It knows no engine, no instance and no grants.
package abi
