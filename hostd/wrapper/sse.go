package wrapper

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxMessage bounds one JSON-RPC message, in bytes, in either direction.
const maxMessage = 32 << 20

var errTooLarge = errors.New("a message is over the limit")

// events reads a text/event-stream (WHATWG HTML, 9.2) and calls each with the
// data of every event that has any, and with its id. It returns nil at the end
// of the stream; an event that the end cuts off is dropped.
func events(r io.Reader, each func(data []byte, id string) error) error {
	br := bufio.NewReaderSize(r, 16<<10)
	var data []byte
	id, has, first := "", false, true
	for {
		line, err := readLine(br, maxMessage)
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return nil
			}
			return err
		}
		if first {
			line, first = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")), false
		}
		if len(line) == 0 {
			if has {
				if err := each(data, id); err != nil {
					return err
				}
			}
			data, has = nil, false
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "data":
			if has {
				data = append(data, '\n')
			}
			data, has = append(data, value...), true
			if len(data) > maxMessage {
				return errTooLarge
			}
		case "id":
			if !bytes.ContainsRune(value, 0) {
				id = string(value)
			}
		}
	}
}

// readLine returns the next line without its end (LF or CRLF, as every server and
// client here writes them). A line longer than max is errTooLarge,
// and is consumed. The last line may lack its end.
func readLine(br *bufio.Reader, max int) ([]byte, error) {
	var line []byte
	over := false
	for {
		part, err := br.ReadSlice('\n')
		if !over {
			line = append(line, part...)
		}
		if len(line) > max {
			line, over = nil, true
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if over && (err == nil || errors.Is(err, io.EOF)) {
			return nil, errTooLarge
		}
		if err != nil && (len(line) == 0 || !errors.Is(err, io.EOF)) {
			return nil, err
		}
		return bytes.TrimRight(line, "\r\n"), nil
	}
}
