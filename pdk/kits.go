// Package kits embeds the sources of the plugin kits, so that an author with the
// binary alone can write a plugin without a network or a published module.
package kits

import "embed"

// Files holds the Go kit at go/, as it stands in this repository.
//
//go:embed go/pdk/*.go go/pdkjson/*.go go/pdktest/*.go
var Files embed.FS

// Vectors holds the golden vectors of the contract at testdata/vectors/.
//
//go:embed testdata/vectors
var Vectors embed.FS
