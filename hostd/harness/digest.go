package harness

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
)

// Reading out of the page cache costs about a quarter of hashing with the
// processor's SHA instructions, so it is done beside it.
const (
	chunk  = 512 << 10 // bytes
	chunks = 4         // read ahead
)

// piece is a chunk as it was read.
type piece struct {
	buf []byte // its capacity is chunk
	err error
}

// digest is the SHA-256 of exactly size bytes, in hex.
func digest(ctx context.Context, r io.ReaderAt, size int64) (string, error) {
	sum := sha256.New()
	if size <= chunk { // no goroutine for what is read at once
		p := readPiece(r, make([]byte, size), 0, size)
		sum.Write(p.buf)
		return hex.EncodeToString(sum.Sum(nil)), p.err
	}
	free, full := make(chan []byte, chunks), make(chan piece, chunks)
	for range chunks {
		free <- make([]byte, chunk)
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(full)
		for off := int64(0); off < size && ctx.Err() == nil; {
			p := readPiece(r, <-free, off, size)
			off += int64(len(p.buf))
			full <- p
			if p.err != nil {
				return
			}
		}
	}()
	var done int64
	var err error
	for p := range full { // to its end: the reader must not outlive the file
		sum.Write(p.buf)
		done += int64(len(p.buf))
		if err = p.err; err != nil {
			break
		}
		free <- p.buf[:chunk]
	}
	cause := ctx.Err()
	cancel()
	switch {
	case err != nil:
		return "", err
	case done < size:
		return "", cause
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// readPiece reads what of buf's length lies before size. A file that ends
// before has shrunk.
func readPiece(r io.ReaderAt, buf []byte, off, size int64) piece {
	n, err := r.ReadAt(buf[:min(int64(len(buf)), size-off)], off)
	switch {
	case off+int64(n) == size || err == nil:
		err = nil
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return piece{buf[:n], err}
}
