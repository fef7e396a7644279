// Package turnqueue lets the turns on one thread run one after another. In go turns, each
// with the key of its thread; out comes a channel that is closed when the turn has the
// thread. Beside that a [Table] remembers what the running turn has done to its thread: the
// point from which it began, the head that its first commit left, and its fence.
//
// It promises that turns have a thread in the order of their tickets, that a thread without
// turns takes no memory, and that the memory of a turn ends with it. It knows neither
// stores nor the locks that processes share.
package turnqueue
