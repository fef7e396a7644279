// Package conformance feeds the golden vectors of the plugin contract to a guest of every
// kit, and compares what comes back: a kit that loses a number, drops a field it does not
// know, or accepts what the contract refuses, fails.
//
// The guest of a kit has these parts, each of which answers with the members of its request
// that the contract names, as the kit has read them:
//
//	tool "vector"        content is the call
//	tool "answer"        its arguments are a result, which it returns
//	tool "fail"          its arguments are an error object, which it fails with
//	processor "vector"   report is the request, with messages
//	processor "outline"  report is the request, with an outline
//	processor "again"    messages are those that it was given
//	router "vector"      reason is the request as JSON
//	provider "vector"    instructions are the request as JSON; observe answers {}
package conformance
