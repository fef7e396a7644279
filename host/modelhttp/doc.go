// Package modelhttp asks model servers over HTTP, so that each kind of model
// holds only its protocol: the form of a request and the meaning of an answer.
//
// A [Server] is one model of one server. [Server.Ask] makes attempts until one
// succeeds or fails permanently, with growing, jittered waits or the server's
// own Retry-After, as long as nothing of an answer has been passed on. An
// [Exchange] is one attempt: it watches the server for silence and describes a
// failure as a [Fault]: an error of the host with a code, without secrets. It
// reads the event stream of an [Answer] within bounds.
//
// # Faults of servers
//
// The same for every protocol (TestHostileServers):
//
//	nothing at all, half an event, a cut        unavailable; asked again unless a
//	connection, no end of the protocol          piece of the answer was passed on
//	silence, before or in an answer             deadline_exceeded after the timeout,
//	                                            for answers in one piece WholeTimeout;
//	                                            not asked again
//	429, 500, 503, 529                          asked again, after Retry-After if it is
//	                                            a minute or less, then
//	                                            resource_exhausted or unavailable
//	an error in the stream                      as the status that it stands for
//	lines, documents, answers without end       unavailable at a bound; not asked again
//	HTML, other JSON, nesting without end       unavailable, with what came
//	bytes that are not UTF-8                    U+FFFD in their place
//	calls of unknown tools, under one id        passed on; the host tells them apart, and
//	or none, with half a JSON                   has the model told
package modelhttp
