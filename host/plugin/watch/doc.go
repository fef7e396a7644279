// Package watch tells which files of a directory have changed, and keeps the
// plugins of a runtime true to a directory of modules.
//
//	err := watch.Plugins(ctx, rt, "plugins", nil) // until ctx ends
//
// What is true is the directory as it is read, not what the system tells of it:
// a notification is a reason to look, and looking from time to time makes up for
// those that are lost. A file counts once its size and time have not changed
// for a while, so that one that is being written is left alone; one that is
// renamed into place is seen whole. Symbolic links that lead out of the directory
// are not followed.
package watch
