// Package artifactio moves artifacts between a guest and its run in pieces. In goes the
// request of artifact.write or artifact.read, out comes its response; the artifacts
// themselves are those of a [host.Call].
//
// It promises that a call has a bounded number of uploads and holds a bounded number of
// bytes beside the artifacts of its run, that an artifact is decoded once however many
// pieces of it are read, unless it is of an earlier turn and others have taken its place,
// and that a guest pays for one of an earlier turn before the host fetches it. It knows no
// plugin, no engine and no grants.
package artifactio
