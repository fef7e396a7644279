// Package savedthread keeps serialized agent threads. In go bytes under a key of the caller's,
// out come the same bytes, or an error of code data_loss. Their content is not read, so a
// thread of a newer version stays intact.
//
// It promises that a stored thread is readable until the one that replaces it is whole, that a
// save guarded by a head replaces no other one, and that the leftovers of an interrupted save
// are removed with the thread of their key once they are stale. It knows no thread of a store, and no agent.
package savedthread
