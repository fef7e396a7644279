// Package kits embeds the sources of the plugin kits, so that an author with the
// binary alone can write a plugin without a network or a published module.
package kits

import "embed"

// Files holds the kits as they stand in this repository: that of Go at go/, of C at c/, of
// Rust at rust/, of AssemblyScript at assemblyscript/, of Zig at zig/, and the types of JavaScript's at js/.
//
//go:embed go/pdk/*.go go/pdkjson/*.go go/pdkgen/*.go go/pdktest/*.go
//go:embed c/agenthost.h c/build.sh
//go:embed rust/Cargo.toml rust/build.sh rust/src/*.rs
//go:embed assemblyscript/build.sh assemblyscript/agenthost/*.ts
//go:embed zig/build.sh zig/agenthost/*.zig
//go:embed js/agenthost.d.ts
var Files embed.FS

// Vectors holds the golden vectors of the contract at testdata/vectors/.
//
//go:embed testdata/vectors
var Vectors embed.FS
