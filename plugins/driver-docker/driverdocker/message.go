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
	// maxMessage bounds one message of the daemon. It cuts lines at linePart.
	maxMessage = 1 << 20
	linePart   = 16 << 10
	// stampSize is how long the time before a message is.
	stampSize = len("2006-01-02T15:04:05.000000000Z")
)

// message is a line that a container wrote, or a part of a long one.
type message struct {
	output int   // 0 standard output, 1 standard error
	time   int64 // nanoseconds
	text   []byte
}

// messageReader reads the daemon's stream of output with times. Raw is the form
// of containers with a terminal: lines, without a frame around each.
type messageReader struct {
	r    io.Reader
	tail *bufio.Reader // of raw
	buf  []byte
}

func newMessageReader(r io.Reader, raw bool) *messageReader {
	m := &messageReader{r: r}
	if raw {
		m.tail = bufio.NewReader(r)
	}
	return m
}

// more reports whether it holds more than it has handed out.
func (m *messageReader) more() bool { return m.tail != nil && m.tail.Buffered() > 0 }

// next returns the next message, valid until the next call; io.EOF at the end.
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

// line reads a message of a container with a terminal. A long line comes in
// parts, each with its time before it and none but the last with an end.
func (m *messageReader) line() (message, error) {
	m.buf = m.buf[:0]
	for len(m.buf) < stampSize+1+linePart {
		b, err := m.tail.ReadByte()
		if err != nil {
			if errors.Is(err, io.EOF) && len(m.buf) > 0 {
				break // the last part; the next call says that it was
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
