// Package cli has the rules of the command line that all commands share: the errors of a
// command line and their hints, exit codes, prompts, and the flags for tenants. Each
// command is a package below this one.
package cli
