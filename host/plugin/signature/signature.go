// Package signature signs plugins with ed25519 keys and verifies who signed one, in the
// files of minisign: the program minisign reads the keys and signatures of this package,
// and this package those of the program.
//
//	public, private, err := signature.Generate()
//	sig, err := private.Sign(wasm, "orders 1.2.0")
//	comment, err := public.Verify(wasm, sig)
//
// The format is that of https://jedisct1.github.io/minisign: the module's BLAKE2b-512
// hash is signed, and the trusted comment with the signature. A comment is trusted once Verify
// has returned it; who the key belongs to is the caller's policy, such as that of
// host/plugin/share.
//
// Texts that are read are bounded, and errors have codes of package fault without the bytes of
// keys. Keys are values that any number of goroutines may use.
package signature

import (
	"strings"

	"aead.dev/minisign"

	"github.com/agenthost/agenthost/host/fault"
)

// The bounds of texts that are read.
const (
	MaxKeyBytes       = 1 << 10
	MaxSignatureBytes = 4 << 10
	maxCommentBytes   = 1 << 10
)

// PublicKey verifies the signatures of one private key. It never changes.
type PublicKey struct{ key minisign.PublicKey }

// PrivateKey signs. It never changes, and does not print.
type PrivateKey struct{ key minisign.PrivateKey }

// Generate makes a pair of keys.
func Generate() (PublicKey, PrivateKey, error) {
	public, private, err := minisign.GenerateKey(nil)
	if err != nil {
		return PublicKey{}, PrivateKey{}, fault.Errorf(fault.Internal, "make a key: %w", err)
	}
	return PublicKey{public}, PrivateKey{private}, nil
}

// ParsePublicKey reads a public key: the line RW..., or the file that has it behind a
// comment. Code invalid_argument if it is none.
func ParsePublicKey(text string) (PublicKey, error) {
	var k PublicKey
	if len(text) > MaxKeyBytes || k.key.UnmarshalText([]byte(strings.TrimSpace(text))) != nil {
		return PublicKey{}, fault.Errorf(fault.InvalidArgument, "it is no public key of minisign").
			WithHint("write the line that begins with RW, of the file NAME.pub")
	}
	return k, nil
}

// String returns the key as a line, which names it everywhere.
func (k PublicKey) String() string { return k.key.String() }

// File returns the file of the key.
func (k PublicKey) File() []byte {
	text, err := k.key.MarshalText()
	if err != nil {
		panic(err) // the library returns none
	}
	return append(text, '\n')
}

// Verify verifies a signature of a module, and returns its trusted comment. Code
// permission_denied for a signature of another key or another module, invalid_argument
// for text that is no signature.
func (k PublicKey) Verify(module, sig []byte) (comment string, err error) {
	var s minisign.Signature
	if len(sig) > MaxSignatureBytes || s.UnmarshalText(sig) != nil {
		return "", fault.Errorf(fault.InvalidArgument, "it is no signature of minisign")
	}
	if !minisign.Verify(k.key, module, sig) {
		return "", fault.Errorf(fault.PermissionDenied, "the signature is not of this module by the key %s", k)
	}
	return s.TrustedComment, nil
}

// ReadPrivateKey reads the file of a private key; password is for one that is encrypted.
// Code invalid_argument for a file that is none, and for a wrong password.
func ReadPrivateKey(file []byte, password string) (PrivateKey, error) {
	var k PrivateKey
	file = []byte(strings.TrimSpace(string(file)))
	var err error
	switch {
	case len(file) > MaxKeyBytes:
		err = fault.Errorf(fault.InvalidArgument, "it is too long")
	case minisign.IsEncrypted(file):
		if password == "" {
			return PrivateKey{}, fault.Errorf(fault.InvalidArgument, "the private key is encrypted").WithHint("give its password")
		}
		k.key, err = minisign.DecryptKey(password, file)
	default:
		err = k.key.UnmarshalText(file)
	}
	if err != nil {
		return PrivateKey{}, fault.Errorf(fault.InvalidArgument, "it is no private key of minisign, or the password is wrong")
	}
	return k, nil
}

// Public returns the key that verifies the signatures of k.
func (k PrivateKey) Public() PublicKey {
	public, ok := k.key.Public().(minisign.PublicKey)
	if !ok {
		panic("a private key of minisign has a public key of another kind")
	}
	return PublicKey{public}
}

// String hides the key.
func (PrivateKey) String() string { return "[private key]" }

// GoString hides the key.
func (PrivateKey) GoString() string { return "[private key]" }

// File returns the file of the key, encrypted unless the password is "". Encryption takes
// a second and 1 GB of memory, as minisign has it.
func (k PrivateKey) File(password string) ([]byte, error) {
	var text []byte
	var err error
	if password == "" {
		text, err = k.key.MarshalText()
	} else {
		text, err = minisign.EncryptKey(password, k.key)
	}
	if err != nil {
		return nil, fault.Errorf(fault.Internal, "write the private key: %w", err)
	}
	return append(text, '\n'), nil
}

// Sign signs a module with a comment, which the signature holds too. Code
// invalid_argument for a comment of several lines, or a long one.
func (k PrivateKey) Sign(module []byte, comment string) ([]byte, error) {
	if strings.ContainsAny(comment, "\r\n") || len(comment) > maxCommentBytes {
		return nil, fault.Errorf(fault.InvalidArgument, "the comment of a signature is one line of at most %d bytes", maxCommentBytes)
	}
	return minisign.SignWithComments(k.key, module, comment, "signature of an agenthost plugin"), nil
}
