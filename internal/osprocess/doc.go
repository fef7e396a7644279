// Package osprocess starts commands whose processes end together, with an environment that
// holds no secrets of the host.
package osprocess
