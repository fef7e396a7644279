// Package modelhttp asks model servers over HTTP, so that each kind of model
// holds only its protocol: what a request looks like and what an answer means.
//
// A [Server] is one model of one server. [Server.Ask] makes attempts until one
// succeeds or fails for good, with growing, jittered waits or the server's own
// Retry-After, as long as nothing of an answer has been passed on. An [Exchange]
// is one attempt: it watches the server for silence and says what a failure was,
// as a [Fault]: an error of the host with a code, without secrets. [Events]
// reads an event stream within bounds.
package modelhttp
