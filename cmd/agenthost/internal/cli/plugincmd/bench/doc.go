// Package bench times calls beside each other: in turns, in one process, so that the
// compared calls run under the same conditions.
package bench
