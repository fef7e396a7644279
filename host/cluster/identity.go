package cluster

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"time"

	"github.com/agenthost/agenthost/host/fault"
)

// identityYears is how long a certificate is valid: longer than any process lives.
const identityYears = 50

// observeAgain is how long a member waits before it looks into the store again for the
// certificate of a caller that it does not know.
const observeAgain = 200 * time.Millisecond

// Identity is a key pair by which a member proves itself to others. It lives as long as
// its process. Other members find its digest in the member's record, so that writing to
// the store is what makes a process one of the cluster: there is no secret to hand out.
type Identity struct {
	cert   tls.Certificate
	digest [sha256.Size]byte
}

// NewIdentity makes a key pair with a certificate of its own. The error has code internal.
func NewIdentity() (*Identity, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fault.Errorf(fault.Internal, "make the key of a member: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.AddDate(-1, 0, 0), NotAfter: now.AddDate(identityYears, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return nil, fault.Errorf(fault.Internal, "make the certificate of a member: %w", err)
	}
	return &Identity{cert: tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: private}, digest: sha256.Sum256(raw)}, nil
}

// ServerTLS returns the configuration of a server that other members alone can connect
// to; nil without Options.Identity.
func (m *Member) ServerTLS() *tls.Config {
	if m.identity == nil {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{m.identity.cert}, ClientAuth: tls.RequireAnyClientCert,
		VerifyPeerCertificate:  func(raw [][]byte, _ [][]*x509.Certificate) error { return m.checkCaller(raw) },
		SessionTicketsDisabled: true, // each connection is checked
	}
}

// ClientTLS returns the configuration of a connection to a peer, which proves itself by
// the key in its record; nil without Options.Identity.
func (m *Member) ClientTLS(p Peer) *tls.Config {
	if m.identity == nil {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{m.identity.cert},
		InsecureSkipVerify: true, // by names; the digest below is the check
		VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			if len(raw) == 0 || !bytes.Equal(digestOf(raw[0]), p.Key) {
				return fault.Errorf(fault.Unauthenticated, "the host at %s is not %s", p.Address, p.ID)
			}
			return nil
		},
	}
}

func digestOf(cert []byte) []byte {
	sum := sha256.Sum256(cert)
	return sum[:]
}

// checkCaller refuses a certificate that is no member's.
func (m *Member) checkCaller(raw [][]byte) error {
	refused := fault.Errorf(fault.Unauthenticated, "the caller is no member of the cluster")
	if len(raw) == 0 {
		return refused
	}
	digest := digestOf(raw[0])
	if m.knowsKey(digest) {
		return nil
	}
	if !m.mayLook() {
		return refused
	}
	ctx, cancel := context.WithTimeout(m.ctx, m.lease)
	defer cancel()
	if _, err := m.Observe(ctx); err != nil || !m.knowsKey(digest) {
		return refused
	}
	return nil
}

func (m *Member) knowsKey(digest []byte) bool {
	for _, p := range m.Peers() {
		if bytes.Equal(p.Key, digest) {
			return true
		}
	}
	return false
}

// mayLook reports whether an unknown caller is a reason to read the store: callers that
// are no members cannot make that often.
func (m *Member) mayLook() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if now.Sub(m.looked) < observeAgain {
		return false
	}
	m.looked = now
	return true
}
