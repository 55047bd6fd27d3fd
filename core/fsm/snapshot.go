// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Snapshot is the state at one index. It is immutable.
type Snapshot = interface {
	// WriteTo writes the snapshot, table by table, until ctx ends.
	WriteTo(ctx context.Context, w io.Writer) error
	// Release frees the state that the snapshot holds.
	Release()
}

// Snapshot returns the current state at no cost. After an entry that could not be
// decoded it returns an error, because the snapshot would claim to include that entry.
func (f *FSM) Snapshot() (Snapshot, error) {
	if f.unread != nil {
		return nil, f.unread
	}
	return &snapshot{view: f.store.View()}, nil
}

type snapshot struct{ view *state.View }

// magic begins a snapshot. The next byte is the format; its values mean the same as in the
// first byte of an entry. In format 2, the cluster's level, the index of the state and the
// release that raised the level follow. All later formats will have these at the same place,
// so that an older server can say which release it needs.
const magic = "DROVERS"

// maxRelease is the maximum length of the name of a release in a snapshot.
const maxRelease = 255

func (s *snapshot) WriteTo(ctx context.Context, w io.Writer) error {
	start := append([]byte(magic), formatPlain)
	if level := s.view.Level(); level > 1 {
		release := s.view.Cluster().Release
		release = release[:min(len(release), maxRelease)]
		start[len(magic)] = formatLeveled
		start = append(start, byte(level))
		start = binary.BigEndian.AppendUint64(start, s.view.Index())
		start = append(append(start, byte(len(release))), release...)
	}
	if _, err := w.Write(start); err != nil {
		return fmt.Errorf("writing a snapshot: %w", err)
	}
	return s.view.Save(&cancelable{ctx: ctx, w: w}, NewCodec())
}

func (s *snapshot) Release() { s.view = nil }

// cancelable is a writer that fails once its context has ended.
type cancelable struct {
	ctx context.Context
	w   io.Writer
}

func (c *cancelable) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.w.Write(p)
}

// Restore replaces the state by a snapshot. A snapshot that a newer version wrote changes
// nothing: the error is an *UnreadableError, and no entry is applied any more.
func (f *FSM) Restore(r io.Reader) error {
	in := bufio.NewReader(r)
	err := f.readStart(in)
	if err == nil {
		err = f.store.Restore(in, NewCodec())
	}
	var unread *UnreadableError
	if errors.As(err, &unread) {
		f.stop(unread)
	} else if err == nil {
		f.unread = nil
	}
	return err
}

// readStart reads what is before the state, and refuses formats and levels that this
// server does not read.
func (f *FSM) readStart(in io.Reader) error {
	var start [len(magic) + 1]byte
	if _, err := io.ReadFull(in, start[:]); err != nil {
		return errdefs.InvalidArgumentf("the state in the snapshot is empty or cut off: %w", err)
	}
	format := start[len(magic)]
	if !bytes.HasPrefix(start[:], []byte(magic)) || format == 0 {
		return errdefs.InvalidArgumentf("this is not the state of a snapshot of Drover, or it is damaged")
	}
	if format == formatPlain {
		return nil
	}
	var more [10]byte // level, index, length of the release
	if _, err := io.ReadFull(in, more[:]); err != nil {
		return fmt.Errorf("reading a snapshot: %w", err)
	}
	release := make([]byte, more[9])
	if _, err := io.ReadFull(in, release); err != nil {
		return fmt.Errorf("reading a snapshot: %w", err)
	}
	unread := &UnreadableError{Index: binary.BigEndian.Uint64(more[1:9]), Snapshot: true}
	switch level := int(more[0]); {
	case format > formatLeveled:
		unread.Err = errdefs.FailedPreconditionf("its format %d is of a newer release than this one; run release %q or a newer one here", format, release)
	case level > f.reads:
		unread.Err = &LevelError{Needs: level, Reads: f.reads, Release: string(release)}
	default:
		return nil
	}
	return unread
}

// Load replaces a state that no log continues, such as that of a program that only looks at
// a snapshot, by a snapshot. FailedPrecondition: it is of a newer level.
func Load(level int, store *state.Store, r io.Reader) error {
	return causeOf(NewAt(level, store, hclog.NewNullLogger()).Restore(r))
}

// CheckStart reports whether a snapshot, of which r has the first StartBytes, is one that
// this release reads. The rest of it may be damaged.
func CheckStart(r io.Reader) error { return causeOf((&FSM{reads: Level}).readStart(r)) }

// StartBytes is the largest size of what is before the state in a snapshot.
const StartBytes = len(magic) + 1 + 10 + 255

// causeOf leaves out of an error what it means for a server that follows the log.
func causeOf(err error) error {
	var unread *UnreadableError
	if errors.As(err, &unread) {
		return unread.Err
	}
	return err
}
