// Package watch keeps the plugins of a runtime in step with a directory of modules.
//
//	err := watch.Plugins(ctx, rt, "plugins", nil) // until ctx ends
//
// It polls: the directory is read every [Options].Interval. A file is loaded once its
// size and time have not changed for a while, so that a file that is being written is
// ignored; a file that is renamed into place is always whole. Symbolic links that lead
// out of the directory are not followed.
package watch
