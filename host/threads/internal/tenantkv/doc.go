// Package tenantkv keeps records among the entries of one tenant. In go keys and values of Go,
// out come entries of a driver ([Partition]), and records that carry the version of their
// layout ([Encode], [Decode]).
//
// It promises that a record of a newer layout is refused and never written back without the
// fields that an older version does not know, that a damaged one is data_loss, and that no
// entry of another tenant is read or written. It knows no threads: what lies under a key, its
// callers know.
package tenantkv
