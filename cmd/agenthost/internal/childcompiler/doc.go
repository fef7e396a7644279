// Package childcompiler compiles the modules of plugins in a process of their own: a copy
// of this program that gets the module on stdin, writes code into a directory made for
// it, and is stopped whatever it does. It inherits no environment and no files but three
// pipes. On Linux the kernel limits its memory, processor time and file size; elsewhere
// only a timeout stops it.
//
// The main function of the program calls [Main] if its first argument is [Name].
package childcompiler
