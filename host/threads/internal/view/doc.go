// Package view computes which parts of which logs a head of a thread shows.
//
// The input is the [View] that is stored with a head, and the length of the head's own
// log; the output are positions: which of them are shown, in which order, and the views
// that an edit, a deletion, a rewind or a fork make of them. It reads and writes
// nothing, and knows logs by their rank only: the number of a log among those that a
// view goes back to, the oldest ancestor's first and the view's own last.
//
// A View never changes once it is made; functions return new slices and leave their
// arguments alone. All functions assume a view for which [View.Valid] is true: a reader
// of stored bytes calls it once.
package view
