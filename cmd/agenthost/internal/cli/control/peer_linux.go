package control

import (
	"net"
	"os"
	"syscall"
)

// checkPeer reports whether the process at the other end of a connection may use the
// host: one of the host's own user, or root's.
func checkPeer(conn net.Conn) bool {
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return false
	}
	var peer *syscall.Ucred
	if raw.Control(func(fd uintptr) {
		peer, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}) != nil || err != nil {
		return false
	}
	return mayAdminister(int(peer.Uid), os.Geteuid())
}
