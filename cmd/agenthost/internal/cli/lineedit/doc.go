// Package lineedit reads lines that a person edits on the terminal of this process: with
// the keys of readline and of the person's inputrc, a history in a file, completion, and
// text of several lines.
package lineedit
