//go:build !linux

package control

import "net"

// checkPeer reports whether the process at the other end of a connection may use the
// host. Only processes of the host's own user, and root's, can open the socket's file.
func checkPeer(net.Conn) bool { return true }
