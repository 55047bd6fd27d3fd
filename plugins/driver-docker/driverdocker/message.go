// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	// maxMessage is the size of a message from the daemon. The daemon splits lines at
	// linePart.
	maxMessage = 1 << 20
	linePart   = 16 << 10
	// stampSize is the length of the timestamp before a message.
	stampSize = len("2006-01-02T15:04:05.000000000Z")
)

// message is a line that a container wrote, or a part of a long line.
type message struct {
	output int   // 0 for stdout, 1 for stderr
	time   int64 // Unix nanoseconds
	text   []byte
}

// messageReader reads the daemon's output stream with timestamps. The output of a
// container with a terminal is raw: lines without frames.
type messageReader struct {
	r    io.Reader
	tail *bufio.Reader // for raw output
	buf  []byte
}

func newMessageReader(r io.Reader, raw bool) *messageReader {
	m := &messageReader{r: r}
	if raw {
		m.tail = bufio.NewReader(r)
	}
	return m
}

// more reports whether data is buffered that next has not returned yet.
func (m *messageReader) more() bool { return m.tail != nil && m.tail.Buffered() > 0 }

// next returns the next message, which is valid until the next call. At the end it
// returns io.EOF.
func (m *messageReader) next() (message, error) {
	if m.tail != nil {
		return m.line()
	}
	return m.frame()
}

func (m *messageReader) frame() (message, error) {
	var head [8]byte
	if _, err := io.ReadFull(m.r, head[:]); err != nil {
		return message{}, err
	}
	size := int(binary.BigEndian.Uint32(head[4:]))
	if size > maxMessage {
		return message{}, fmt.Errorf("a message of %d bytes; the Docker daemon cuts lines far shorter", size)
	}
	if cap(m.buf) < size {
		m.buf = make([]byte, max(size, 512))
	}
	m.buf = m.buf[:size]
	if _, err := io.ReadFull(m.r, m.buf); err != nil {
		return message{}, err
	}
	switch head[0] {
	case 0, 1:
		return parseMessage(0, m.buf)
	case 2:
		return parseMessage(1, m.buf)
	}
	return message{}, fmt.Errorf("the Docker daemon reports: %s", bytes.TrimSpace(m.buf))
}

// line reads a message of a container with a terminal. A long line consists of
// several parts, each with its own timestamp; only the last one ends with a newline.
func (m *messageReader) line() (message, error) {
	m.buf = m.buf[:0]
	for len(m.buf) < stampSize+1+linePart {
		b, err := m.tail.ReadByte()
		if err != nil {
			if errors.Is(err, io.EOF) && len(m.buf) > 0 {
				break // the last part; the next call returns the error
			}
			return message{}, err
		}
		if m.buf = append(m.buf, b); b == '\n' {
			break
		}
	}
	return parseMessage(0, m.buf)
}

func parseMessage(output int, b []byte) (message, error) {
	stamp, text, ok := bytes.Cut(b, []byte{' '})
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if !ok || err != nil {
		return message{}, fmt.Errorf("a message of the Docker daemon begins with %.40q and not with its time", b)
	}
	return message{output: output, time: at.UnixNano(), text: text}, nil
}
