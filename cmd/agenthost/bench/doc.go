// Package bench times calls beside each other: in turns, in one process, so
// that what is compared met the same machine.
package bench
