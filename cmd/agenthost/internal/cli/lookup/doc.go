// Package lookup finds the threads, messages and runs that a person means: ids may be
// shortened, messages have numbers. A text that matches nothing is returned unchanged,
// so that the command's own read reports it.
package lookup
