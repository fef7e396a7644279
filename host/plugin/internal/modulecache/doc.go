// Package modulecache keeps metered modules, and the native code that an engine made of
// them, in a directory. In goes a module with its limits, or a directory that an engine
// compiled into; out comes the same, verified, in this process or in a later one.
//
// It promises:
//
//   - An entry is whole or absent: it is made under another name and renamed when it is
//     complete. Any number of processes may use one directory at once.
//   - An entry that differs from its seal (damaged, cut off, of another key, with more
//     files or fewer) is removed, and looks as if it had never been there.
//   - An entry of another machine, engine, meter or limit has another key.
//   - The directory belongs to this user alone: its code runs with this process's rights.
//   - The least recently used entries are removed when the whole is beyond its bound.
//
// The package runs no code, compiles nothing itself, and knows no plugin.
package modulecache
