// Package wasienv is a guest's WASI environment: a clock that moves 1 ms a reading and by
// the time slept, the same random bytes for every call, stdout and stderr into a log, and
// nothing else. With the permissions clock and random they are the real ones, the clock
// once start-up code has run.
//
// The package knows no engine: [Env] has the functions that an engine asks for time,
// random bytes and output.
package wasienv
