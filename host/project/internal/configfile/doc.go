// Package configfile reads agenthost.yaml strictly: [Read] returns a [Config] or an
// error with the line and column of the fault and a suggestion. It checks all that can
// be checked without opening anything; package project wires the rest and reports its
// own faults at positions with [Config.ErrorAt], [Config.Unknown] and [Config.Wrap]. It
// also derives the JSON Schema for editors, and edits grants without touching comments.
package configfile
