// Package control lets one process steer another of the same user over a Unix
// socket: a JSON request on a line, a JSON answer on a line.
//
//	{"op":"plugin.reload","args":{"id":"orders"}}
//	{"result":{...}}            or {"error":{"code":...,"message":...}}
//
// What takes its time may answer in pieces, a line each, before the answer:
//
//	{"event":{...}}
//
// A connection may ask several things, one after the other. Who may open the
// socket may steer the host: its file is this user's alone.
package control
