// Package permission has the rights of plugins: what a manifest asks for, what an operator
// grants, and what both allow together ([Set.Clamp]). In go two sets, out comes a set, the
// differences in words, or the rules for its requests ([Set.Policy]).
//
// It promises that a set allows nothing that is not in it, that the clamp of two sets is
// their intersection, and that both [Set.Words] and JSON read the same everywhere. Values
// may be read by many goroutines at once. Nothing here knows a plugin or sends anything.
package permission
