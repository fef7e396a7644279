// Package helpcmd has the help topics: environment variables and exit codes. The pages in
// docs have the same tables.
package helpcmd
