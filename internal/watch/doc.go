// Package watch finds changed files by looking at them from time to time. A look
// costs a few system calls a file, works on every file system, and sees a file that
// an editor has put in the place of another.
//
// [Tree] says whether anything below a root has changed. [Dir] reports each file of
// one directory that has changed, once its size and time have stayed the same for a
// while: a file that is being written is left alone, and one that is renamed into
// place is seen whole. Both are driven by [Poll].
package watch
