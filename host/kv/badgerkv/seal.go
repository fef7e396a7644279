package badgerkv

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/agenthost/agenthost/host/kv"
)

// A backup is cut into pieces, each sealed with its number and whether it is the last
// one: readers detect a piece that was changed, left out, moved or cut off. A backup
// without a key is sealed with a public key value, which detects accidental damage but
// keeps nothing secret.
const (
	pieceBytes = 64 << 10
	lastPiece  = 1 << 31 // in the length of a piece
	sealInfo   = "agenthost backup 1"
)

func newSeal(key, salt []byte) (cipher.AEAD, error) {
	derived, err := hkdf.Key(sha256.New, key, salt, sealInfo, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// nonce returns the nonce of a piece; each backup has its own key.
func nonce(n uint64, last bool) []byte {
	b := binary.BigEndian.AppendUint64(nil, n)
	if last {
		return append(b, 0, 0, 0, 1)
	}
	return append(b, 0, 0, 0, 0)
}

// sealer writes pieces.
type sealer struct {
	w      io.Writer
	aead   cipher.AEAD
	header []byte // the additional data of every piece
	n      uint64
	buf    []byte
	out    []byte
}

func (s *sealer) Write(b []byte) (int, error) {
	total := len(b)
	for len(b) > 0 {
		if len(s.buf) == pieceBytes { // more bytes follow, so this piece is not the last
			if err := s.piece(false); err != nil {
				return 0, err
			}
		}
		n := min(len(b), pieceBytes-len(s.buf))
		s.buf = append(s.buf, b[:n]...)
		b = b[n:]
	}
	return total, nil
}

// Close writes the last piece.
func (s *sealer) Close() error { return s.piece(true) }

func (s *sealer) piece(last bool) error {
	size := uint32(len(s.buf))
	if last {
		size |= lastPiece
	}
	s.out = binary.BigEndian.AppendUint32(s.out[:0], size)
	s.out = s.aead.Seal(s.out, nonce(s.n, last), s.buf, s.header)
	s.n++
	s.buf = s.buf[:0]
	_, err := s.w.Write(s.out)
	return err
}

// unsealer reads the pieces that a sealer wrote. It returns io.EOF after the last
// piece, [kv.ErrCorrupt] for a stream that ends earlier.
type unsealer struct {
	r      io.Reader
	aead   cipher.AEAD
	header []byte
	n      uint64
	last   bool
	in     []byte
	buf    []byte // unsealed and not yet read
}

func (u *unsealer) Read(b []byte) (int, error) {
	for len(u.buf) == 0 {
		if u.last {
			return 0, u.end()
		}
		if err := u.piece(); err != nil {
			return 0, err
		}
	}
	n := copy(b, u.buf)
	u.buf = u.buf[n:]
	return n, nil
}

func (u *unsealer) piece() error {
	var length [4]byte
	if _, err := io.ReadFull(u.r, length[:]); err != nil {
		return cutOff(err)
	}
	size := binary.BigEndian.Uint32(length[:])
	u.last = size&lastPiece != 0
	if size &^= lastPiece; size > pieceBytes {
		return fmt.Errorf("%w: piece %d of the backup is not what was written", kv.ErrCorrupt, u.n)
	}
	u.in = append(u.in[:0], make([]byte, int(size)+u.aead.Overhead())...)
	if _, err := io.ReadFull(u.r, u.in); err != nil {
		return cutOff(err)
	}
	opened, err := u.aead.Open(u.in[:0], nonce(u.n, u.last), u.in, u.header)
	if err != nil && u.n == 0 {
		return fmt.Errorf("%w: the backup is sealed with another key, or its beginning is damaged", kv.ErrKey)
	}
	if err != nil {
		return fmt.Errorf("%w: piece %d of the backup is not what was written", kv.ErrCorrupt, u.n)
	}
	u.n++
	u.buf = opened
	return nil
}

// end returns io.EOF if nothing follows the last piece.
func (u *unsealer) end() error {
	switch n, err := u.r.Read(make([]byte, 1)); {
	case n > 0:
		return fmt.Errorf("%w: something follows the end of the backup", kv.ErrCorrupt)
	case err != nil && err != io.EOF:
		return err
	}
	return io.EOF
}

func cutOff(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: the backup is cut off", kv.ErrCorrupt)
	}
	return err
}
