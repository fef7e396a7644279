// Package talk holds a conversation with a person at a terminal: it reads lines,
// does the commands that begin with a slash, and hands the rest to the other side of the
// conversation. Ctrl-C ends a turn; a second one leaves.
package talk
