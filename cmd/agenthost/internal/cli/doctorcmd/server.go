package doctorcmd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/control"
	"github.com/agenthost/agenthost/host"
)

const (
	soonExpired = 14 * 24 * time.Hour // a certificate that ends within this is told of
	fewFiles    = 4096                // open files, and so connections, that a server may run out of
)

// serverFlags are those of agenthost serve that have prerequisites, and ask for a look at
// the running host.
type serverFlags struct {
	listen, certificate, key, socket string
	running                          bool
}

// checkServer checks that a server with these flags could serve, or that it does.
func (d *checkup) checkServer(ctx context.Context, f *doctorFlags) (list []finding) {
	s := &f.server
	if s.running {
		list = append(list, checkRunning(ctx, f))
	}
	if s.listen != "" {
		list = append(list, checkAddress(ctx, s.listen), checkOpenFiles())
	}
	if s.certificate != "" {
		list = append(list, checkCertificate(s.certificate, s.key, time.Now()))
	}
	return list
}

// checkRunning asks the running host whether it takes requests.
func checkRunning(ctx context.Context, f *doctorFlags) finding {
	ctx, cancel := context.WithTimeout(ctx, networkTime)
	defer cancel()
	at := control.Flags{Data: f.data, Socket: f.server.socket}
	path, err := at.Path()
	if err == nil {
		err = control.Ready(ctx, path)
	}
	if err != nil {
		return failed("host", err)
	}
	return finding{Name: "host", Status: fine, Text: "the host at " + path + " takes requests"}
}

// checkAddress listens at an address for a moment.
func checkAddress(ctx context.Context, address string) finding {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return failed("address", host.Errorf(host.FailedPrecondition, "%w", err).WithHint("end the process that has the address, or choose another; ports below 1024 want a right"))
	}
	_ = l.Close()
	return finding{Name: "address", Status: fine, Text: address + " is free"}
}

// checkCertificate reads a certificate as a server does, and looks at its time.
func checkCertificate(file, key string, now time.Time) finding {
	pair, err := tls.LoadX509KeyPair(file, key)
	if err == nil && pair.Leaf == nil {
		err = errors.New("it has no certificate")
	}
	if err != nil {
		return failed("certificate", host.Errorf(host.InvalidArgument, "read %s: %w", file, err).WithHint("--tls-cert and --tls-key are files in PEM that belong together"))
	}
	leaf, left := pair.Leaf, pair.Leaf.NotAfter.Sub(now)
	const renew = "renew it, and send the server SIGHUP"
	switch {
	case now.Before(leaf.NotBefore):
		return finding{Name: "certificate", Status: broken, Text: fmt.Sprintf("%s begins at %s", file, leaf.NotBefore.Local().Format(time.DateTime)), Hint: "is the clock of this machine right?"}
	case left <= 0:
		return finding{Name: "certificate", Status: broken, Text: fmt.Sprintf("%s has ended at %s", file, leaf.NotAfter.Local().Format(time.DateTime)), Hint: renew}
	case left < soonExpired:
		return finding{Name: "certificate", Status: note, Text: fmt.Sprintf("%s ends at %s", file, leaf.NotAfter.Local().Format(time.DateTime)), Hint: renew}
	}
	return finding{Name: "certificate", Status: fine, Text: fmt.Sprintf("%s, for %v, until %s", file, leaf.DNSNames, leaf.NotAfter.Local().Format(time.DateOnly))}
}

// checkOpenFiles looks at the limit of open files, each of which a connection is.
func checkOpenFiles() finding {
	n, known := openFiles()
	switch {
	case !known:
		return finding{Name: "open files", Status: note, Text: "this system does not say how many files a process may have open"}
	case n < fewFiles:
		return finding{Name: "open files", Status: note, Text: fmt.Sprintf("a process may have %d files open, and each connection is one", n), Hint: "raise the limit: ulimit -n, or LimitNOFILE of the service"}
	}
	return finding{Name: "open files", Status: fine, Text: fmt.Sprintf("a process may have %d open", n)}
}
