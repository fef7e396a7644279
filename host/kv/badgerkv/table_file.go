package badgerkv

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/y"
	"github.com/klauspost/compress/snappy"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Bounds of the sizes that a table may declare before its checksums are verified.
const (
	maxTableBytes    = 1 << 30
	maxChecksumBytes = 64
	maxBlockBytes    = 64 << 20
)

// checkTable reads a whole table file and compares every checksum in it. The file
// ends with the index of its blocks, the index's length, its checksum and that
// one's length; each block ends with a checksum and its length.
func checkTable(path string, manifest badger.TableManifest, keys *badger.KeyRegistry) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() > maxTableBytes {
		return fmt.Errorf("it has %d bytes", info.Size())
	}
	key, err := dataKey(keys, manifest.KeyID)
	if err != nil {
		return err
	}
	defer func() {
		if p := recover(); p != nil { // an index with a right checksum and wrong offsets
			err = errors.New("its index cannot be read")
		}
	}()
	index, end, err := readIndex(f, info.Size())
	if err != nil {
		return err
	}
	if index, err = decrypt(index, key); err != nil {
		return err
	}
	blocks := fb.GetRootAsTableIndex(index, 0)
	if blocks.OffsetsLength() == 0 {
		return errors.New("its index names no block")
	}
	var at fb.BlockOffset
	for i := range blocks.OffsetsLength() {
		if !blocks.Offsets(&at, i) {
			return errors.New("its index cannot be read")
		}
		if int64(at.Offset())+int64(at.Len()) > end {
			return fmt.Errorf("block %d is beyond its end", i)
		}
		block := make([]byte, at.Len())
		if _, err := f.ReadAt(block, int64(at.Offset())); err != nil {
			return fmt.Errorf("read block %d: %w", i, err)
		}
		if err := checkBlock(block, key, manifest.Compression); err != nil {
			return fmt.Errorf("block %d: %w", i, err)
		}
	}
	return nil
}

// readIndex returns the index, and its offset, after verifying its checksum.
func readIndex(f io.ReaderAt, size int64) (index []byte, begin int64, err error) {
	cut := errors.New("it is cut off")
	n, err := lengthBefore(f, size)
	if err != nil || n == 0 || n > maxChecksumBytes {
		return nil, 0, cut
	}
	sum := make([]byte, n)
	end := size - 4 - n
	if end < 4 {
		return nil, 0, cut
	}
	if _, err := f.ReadAt(sum, end); err != nil {
		return nil, 0, err
	}
	n, err = lengthBefore(f, end)
	if err != nil || n == 0 || n > end-4 {
		return nil, 0, cut
	}
	index, begin = make([]byte, n), end-4-n
	if _, err := f.ReadAt(index, begin); err != nil {
		return nil, 0, err
	}
	if err := compare(index, sum); err != nil {
		return nil, 0, fmt.Errorf("index: %w", err)
	}
	return index, begin, nil
}

// lengthBefore reads the four bytes that end at end.
func lengthBefore(f io.ReaderAt, end int64) (int64, error) {
	var b [4]byte
	if end < int64(len(b)) {
		return 0, io.ErrUnexpectedEOF
	}
	_, err := f.ReadAt(b[:], end-int64(len(b)))
	return int64(binary.BigEndian.Uint32(b[:])), err
}

func checkBlock(block, key []byte, compression options.CompressionType) error {
	block, err := decrypt(block, key)
	if err != nil {
		return err
	}
	if compression == options.Snappy {
		if n, err := snappy.DecodedLen(block); err != nil || n > maxBlockBytes {
			return errors.New("it cannot be decompressed")
		}
		if block, err = snappy.Decode(nil, block); err != nil {
			return errors.New("it cannot be decompressed")
		}
	}
	if len(block) < 4 {
		return errors.New("it is cut off")
	}
	end := len(block) - 4
	n := int(binary.BigEndian.Uint32(block[end:]))
	if n > maxChecksumBytes || n > end-4 {
		return errors.New("it is cut off")
	}
	return compare(block[:end-n], block[end-n:end])
}

// decrypt undoes AES-CTR; the initialization vector follows the text.
func decrypt(b, key []byte) ([]byte, error) {
	if key == nil {
		return b, nil
	}
	if len(b) < aes.BlockSize {
		return nil, errors.New("it is cut off")
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	text, iv := b[:len(b)-aes.BlockSize], b[len(b)-aes.BlockSize:]
	cipher.NewCTR(block, iv).XORKeyStream(text, text)
	return text, nil
}

// compare returns an error if data does not have the checksum that sum encodes: a
// protobuf message with the algorithm in field 1 and the value in field 2, both varints
// and left out if 0.
func compare(data, sum []byte) error {
	var fields [3]uint64
	for len(sum) > 0 {
		field, value := sum[0]>>3, sum[1:]
		v, n := binary.Uvarint(value)
		if sum[0]&7 != 0 || field < 1 || field > 2 || n <= 0 {
			return errors.New("its checksum cannot be read")
		}
		fields[field], sum = v, value[n:]
	}
	algorithm := pb.Checksum_Algorithm(fields[1])
	if algorithm != pb.Checksum_CRC32C && algorithm != pb.Checksum_XXHash64 {
		return errors.New("its checksum cannot be read")
	}
	if y.CalculateChecksum(data, algorithm) != fields[2] {
		return errors.New("its checksum differs")
	}
	return nil
}
