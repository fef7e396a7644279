// Package extism is the calling convention of Extism plugins. A guest that is built with
// an Extism kit reads its input and gives its output, its errors, its variables and its
// host operations as blocks of bytes, which it reaches by imported functions, a word at a
// time. [State] is the host's side of one instance, and [Functions] are the functions.
//
// The package knows no engine and no plugin: calls are bounded by a callmeter.Meter,
// memory is counted by a linearmem.Budget, and host operations are answered by a [Host].
package extism
