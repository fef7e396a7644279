// Package fault is the one error type of this module: an [Error] with a [Code], a
// message that names the thing and the cause, and a hint that names the next step.
//
// Callers branch on [CodeOf], never on a text. One table gives each code its HTTP
// status and its exit code.
//
// An error has two readers. The caller of the library and the operator's log get the
// whole text. A client, a stored turn and another tenant get [ForClient] of it, which
// masks the texts of database drivers, models' servers and panics: they may hold
// addresses, credentials and names of others. [Disclose] and [Withhold] decide for one
// error what the rules of ForClient would decide otherwise.
//
// The package imports nothing of this module. Package host has the names of its errors
// as aliases.
package fault
