// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/tasklog"
)

// mark is how far an output has been copied: all messages before time and the
// first seen ones of that time are in the files up to at. What the files have
// beyond at was written just before the process died; the next one finds it by
// the files' sizes, so that nothing is lost and nothing comes twice.
type mark struct {
	time int64 // nanoseconds
	seen uint32
	sum  uint32 // of the last message
	at   tasklog.Position
}

// cursorDir has a file for each container. It is not in the task's directory,
// where the task could change it.
const cursorDir = "logs"

const (
	markSize   = 8 + 4 + 4 + 8 + 4
	cursorSize = 2*markSize + 4
)

func cursorPath(dir, container string) string {
	return filepath.Join(dir, cursorDir, filepath.Base(container))
}

// openCursor reads how far a container's output was copied; known is false if
// that is not known.
func openCursor(dir, container string) (f *os.File, marks [2]mark, known bool, err error) {
	f, err = os.OpenFile(cursorPath(dir, container), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, marks, false, errdefs.FailedPreconditionf("open the file that says how far output was read: %w", err)
	}
	var b [cursorSize]byte
	if _, err := f.ReadAt(b[:], 0); err != nil {
		if errors.Is(err, io.EOF) {
			return f, marks, false, nil
		}
		_ = f.Close() // it was only read from
		return nil, marks, false, errdefs.FailedPreconditionf("read how far output was read: %w", err)
	}
	if crc32.ChecksumIEEE(b[:2*markSize]) != binary.LittleEndian.Uint32(b[2*markSize:]) {
		return f, marks, false, nil
	}
	for i := range marks {
		p := b[i*markSize:]
		marks[i] = mark{
			time: int64(binary.LittleEndian.Uint64(p)), seen: binary.LittleEndian.Uint32(p[8:]),
			at:  tasklog.Position{Index: int(binary.LittleEndian.Uint32(p[12:])), Offset: int64(binary.LittleEndian.Uint64(p[16:]))},
			sum: binary.LittleEndian.Uint32(p[24:]),
		}
	}
	return f, marks, true, nil
}

// writeCursor is one write of a few bytes: a kill comes before it or after it.
func writeCursor(f *os.File, marks [2]mark) error {
	var b [cursorSize]byte
	for i, m := range marks {
		p := b[i*markSize:]
		binary.LittleEndian.PutUint64(p, uint64(m.time))
		binary.LittleEndian.PutUint32(p[8:], m.seen)
		binary.LittleEndian.PutUint32(p[12:], uint32(m.at.Index))
		binary.LittleEndian.PutUint64(p[16:], uint64(m.at.Offset))
		binary.LittleEndian.PutUint32(p[24:], m.sum)
	}
	binary.LittleEndian.PutUint32(b[2*markSize:], crc32.ChecksumIEEE(b[:2*markSize]))
	if _, err := f.WriteAt(b[:], 0); err != nil {
		return errdefs.Internalf("write how far output was read: %w", err)
	}
	return nil
}

func removeCursor(dir, container string) {
	_ = os.Remove(cursorPath(dir, container)) // there may be none
}
