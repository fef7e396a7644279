// Package files reads the files, JSON and stdin that a command line names, each up to a
// bound, and writes files whole or not at all. Errors have the codes of the host.
package files
