// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package serve

import (
	"context"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/core/sleep"
)

// waker sleeps until a watched file changes. It has an inotify instance of its own. If the
// machine has no more of them, it only sleeps, so followers see new data at the next poll
// instead of at once.
type waker struct {
	events *os.File // nil: nothing is watched yet, or no instance is available
	buf    []byte
	wds    map[*os.File]int
}

func newWaker() *waker { return &waker{} }

func (w *waker) open() {
	if w.wds != nil {
		return
	}
	w.wds = map[*os.File]int{}
	if fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err == nil {
		w.events = os.NewFile(uintptr(fd), "inotify")
		w.buf = make([]byte, 4096)
	}
}

// add watches an open file or folder, independent of its name.
func (w *waker) add(f *os.File) {
	w.open()
	w.control(func(instance int) {
		path := "/proc/self/fd/" + strconv.FormatUint(uint64(f.Fd()), 10)
		if wd, err := unix.InotifyAddWatch(instance, path, unix.IN_MODIFY|unix.IN_CREATE|unix.IN_MOVED_TO); err == nil {
			w.wds[f] = wd
		}
	})
}

// drop forgets a file; call it before the file is closed.
func (w *waker) drop(f *os.File) {
	wd, ok := w.wds[f]
	if !ok {
		return
	}
	delete(w.wds, f)
	// It fails only for a file that is gone, whose watch is gone too.
	w.control(func(instance int) { _, _ = unix.InotifyRmWatch(instance, uint32(wd)) })
}

func (w *waker) control(do func(instance int)) {
	if w.events == nil {
		return
	}
	conn, err := w.events.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) { do(int(fd)) }) // fails only once it is closed
}

// sleep returns at the next change, after d, or when ctx ends with its error.
func (w *waker) sleep(ctx context.Context, d time.Duration) error {
	if w.events == nil || w.events.SetReadDeadline(time.Now().Add(d)) != nil {
		return sleep.For(ctx, d)
	}
	stop := context.AfterFunc(ctx, func() { _ = w.events.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if ctx.Err() == nil {
		_, _ = w.events.Read(w.buf) // the kind of event does not matter: the reader checks everything
	}
	return ctx.Err()
}

func (w *waker) close() {
	if w.events != nil {
		w.events.Close()
	}
}
