// Package guestmodule tells what a module is to a plugin host before any of it runs: its
// calling convention, and every reason why no call can be made to it. In goes a parsed
// module, out come problems with their remedies; a module that was built for another host
// is recognised by the toolchain that its imports come from.
//
// It promises that each problem names the import or export at fault and what the author
// does about it, in bounded text, and that it looks at the structure alone: the code of
// functions, engines and permissions are others' business.
package guestmodule
