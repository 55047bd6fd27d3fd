// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/tasklog"
)

// mark is the position up to which an output has been copied: the log files up to
// size at contain all messages before time and the first seen messages with exactly
// that time. Data in the files after at was written just before the process died.
// The next process detects it by the size of the files, so nothing is lost or
// written twice.
type mark struct {
	time int64 // Unix nanoseconds
	seen uint32
	sum  uint32 // checksum of the last message
	at   tasklog.Position
}

// cursorDir contains a file for each container. It is not in the task's directory,
// where the task could modify it.
const cursorDir = "logs"

const (
	markSize   = 8 + 4 + 4 + 8 + 4
	cursorSize = 2*markSize + 4
)

func cursorPath(dir, container string) string {
	return filepath.Join(dir, cursorDir, filepath.Base(container))
}

// lockRetry is the time between two attempts to lock a file.
const lockRetry = 100 * time.Millisecond

// lockCursor opens a container's file and waits for its exclusive lock. During an
// upgrade of the plugin, the old process still copies the output, and keeps doing so
// if the new version is rejected.
func lockCursor(ctx context.Context, dir, container string) (*os.File, error) {
	for {
		f, err := os.OpenFile(cursorPath(dir, container), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, errdefs.FailedPreconditionf("open the file with the position in a container's output: %w", err)
		}
		ours, err := tryLock(f, true)
		if ours {
			return f, nil
		}
		_ = f.Close() // nothing was written that an error of Close could concern
		if err != nil {
			return nil, errdefs.FailedPreconditionf("lock the file with the position in a container's output: %w", err)
		}
		if !pause(ctx, lockRetry) {
			return nil, ctx.Err()
		}
	}
}

// readCursor returns the position up to which a container's output was copied. known
// is false if the file is empty or damaged.
func readCursor(f *os.File) (marks [2]mark, known bool, err error) {
	var b [cursorSize]byte
	if _, err := f.ReadAt(b[:], 0); err != nil {
		if errors.Is(err, io.EOF) {
			return marks, false, nil
		}
		return marks, false, errdefs.FailedPreconditionf("read the position in a container's output: %w", err)
	}
	if crc32.ChecksumIEEE(b[:2*markSize]) != binary.LittleEndian.Uint32(b[2*markSize:]) {
		return marks, false, nil
	}
	for i := range marks {
		p := b[i*markSize:]
		marks[i] = mark{
			time: int64(binary.LittleEndian.Uint64(p)), seen: binary.LittleEndian.Uint32(p[8:]),
			at:  tasklog.Position{Index: int(binary.LittleEndian.Uint32(p[12:])), Offset: int64(binary.LittleEndian.Uint64(p[16:]))},
			sum: binary.LittleEndian.Uint32(p[24:]),
		}
	}
	return marks, true, nil
}

// writeCursor writes the marks in a single small write, so that a kill cannot leave
// a partial one.
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
		return errdefs.Internalf("write the position in a container's output: %w", err)
	}
	return nil
}

func removeCursor(dir, container string) {
	_ = os.Remove(cursorPath(dir, container)) // it may not exist
}
