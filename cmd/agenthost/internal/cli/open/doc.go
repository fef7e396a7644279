// Package open opens what a command line names, as every command opens it: data
// directories, projects, and the modules of plugins. Warnings, progress and the logs of
// guests appear on the command's terminal.
package open
