// Package control lets one process steer another of the same user over a Unix
// socket: a JSON request on a line, a JSON answer on a line.
//
//	{"op":"plugin.reload","args":{"id":"orders"}}
//	{"result":{...}}            or {"error":{"code":...,"message":...}}
//
// A long operation may send events, a line each, before the answer:
//
//	{"event":{...}}
//
// A connection may carry several requests, one after the other. A process that can open
// the socket can steer the host: only this user can open its file.
package control
