// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"fmt"

	"github.com/drover-project/drover/sdk/errdefs"
)

// The first byte of an entry is its format. Format 1 goes on with the kind of the command,
// format 2 with the capability level that a server needs in order to read it, and then
// the kind. Commands of level 1 keep format 1, which every release reads. Servers that
// know only format 1 stop at format 2.
const (
	formatPlain   = 1
	formatLeveled = 2
)

// head is what an entry says about itself before its command.
type head struct {
	level int
	kind  byte
	body  []byte
}

// readHead reads the head of an entry. It knows nothing of levels and kinds.
func readHead(data []byte) (head, error) {
	switch {
	case len(data) >= 2 && data[0] == formatPlain:
		return head{level: 1, kind: data[1], body: data[2:]}, nil
	case len(data) >= 3 && data[0] == formatLeveled:
		return head{level: int(data[1]), kind: data[2], body: data[3:]}, nil
	case len(data) < 3:
		return head{}, errdefs.InvalidArgumentf("a log entry of %d bytes is not a command", len(data))
	}
	return head{}, errdefs.InvalidArgumentf("a log entry has format %d, and this server reads formats up to %d", data[0], formatLeveled)
}

// needing is a command whose level depends on its contents.
type needing interface{ needs() int }

// levelOf returns the capability level that servers need to read the command.
func levelOf(c Command) int {
	level := commands[c.kind()].level
	if n, ok := c.(needing); ok {
		level = max(level, n.needs())
	}
	return level
}

// Needs returns the capability level that the cluster must have before the entry may be
// proposed. It is 1 for the entry that raises the level.
func Needs(entry []byte) int {
	h, err := readHead(entry)
	if err != nil || h.kind == kindRaiseLevel {
		return 1
	}
	return h.level
}

var entryCodec = NewCodec()

// Encode returns the log entry of a command. InvalidArgument: the command is
// incomplete.
func Encode(c Command) (_ []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errdefs.InvalidArgumentf("encoding %T: %v", c, r)
		}
	}()
	var body any = c
	if p, ok := c.(packed); ok {
		form, err := p.pack()
		if err != nil {
			return nil, err
		}
		body = form
	}
	start := []byte{formatPlain, c.kind()}
	if level := levelOf(c); level > 1 {
		start = []byte{formatLeveled, byte(level), c.kind()}
	}
	data, err := entryCodec.Append(start, body)
	if err != nil {
		return nil, fmt.Errorf("encoding a log entry: %w", err)
	}
	return data, nil
}

// Decode decodes a log entry. It returns an error of class InvalidArgument, or a
// *LevelError, for an entry that it cannot decode, the same on every server of this
// version.
func Decode(data []byte) (Command, error) { return decode(data, Level) }

// decode decodes an entry on a server that reads up to a level.
func decode(data []byte, reads int) (_ Command, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errdefs.InvalidArgumentf("a log entry is damaged: %v", r)
		}
	}()
	h, err := readHead(data)
	if err != nil {
		return nil, err
	}
	if h.level > reads && h.kind != kindRaiseLevel {
		return nil, &LevelError{Needs: h.level, Reads: reads}
	}
	c := newCommand(h.kind)
	if c == nil {
		return nil, errdefs.InvalidArgumentf("a log entry has the unknown command %d", h.kind)
	}
	if err := decodeBody(h.body, c); err != nil {
		return nil, err
	}
	if raise, ok := c.(*RaiseLevel); ok && max(raise.Level, h.level) > reads {
		return nil, &LevelError{Needs: max(raise.Level, h.level), Reads: reads, Release: raise.Release}
	}
	return c, nil
}

func decodeBody(body []byte, c Command) error {
	p, ok := c.(packed)
	if !ok {
		return entryCodec.Decode(body, c)
	}
	form := p.packedForm()
	if err := entryCodec.Decode(body, form); err != nil {
		return err
	}
	return p.unpack(form)
}
