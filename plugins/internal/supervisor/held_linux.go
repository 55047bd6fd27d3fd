// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervisor

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// What the supervisor asks the keeper for: one message per task, of a verb, the task's
// key and a line feed. With keeperHold come the task's FIFOs as descriptors. The kernel
// holds these open while the message waits to be read, so that a task's last words are
// safe from the moment in which the supervisor has asked.
//
// A supervisor of an older version sends the same text without descriptors.
const (
	keeperHold = "+"
	keeperDrop = "-"
)

// askBuffer is the size in bytes of the messages that may wait for the keeper. One
// takes about 1 KiB of kernel memory.
const askBuffer = 4 << 20

// askSockets makes the sockets of keeper and supervisor.
func askSockets() (fds [2]int, err error) {
	fds, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fds, fmt.Errorf("make a socket for the supervisor: %w", err)
	}
	// Without the privilege the buffer stays as it is: 200 starts at once.
	_ = unix.SetsockoptInt(fds[1], unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, askBuffer)
	return fds, nil
}

// askToHold asks the keeper to hold the FIFOs of a task.
func (l *loop) askToHold(t *task) {
	var fifos []int
	for i := range t.out {
		if t.out[i].fifo >= 0 {
			fifos = append(fifos, t.out[i].fifo)
		}
	}
	if len(fifos) > 0 {
		l.askKeeper(keeperHold+t.key, unix.UnixRights(fifos...))
	}
}

// dropHeld asks the keeper to let the FIFOs of a task go.
func (l *loop) dropHeld(key string) { l.askKeeper(keeperDrop+key, nil) }

// askKeeper never waits. The keeper is a second pair of hands, so it does not matter if
// there is none.
func (l *loop) askKeeper(ask string, rights []byte) {
	err := unix.Sendmsg(l.keeper, []byte(ask+"\n"), rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	if err == unix.ENOTSOCK { // the keeper is of an older version
		_, _ = unix.Write(l.keeper, []byte(ask+"\n")) // as above
	}
}

// hold keeps the FIFOs of tasks open as the supervisor asks for it, so that what
// is in them outlives the supervisor even where the task has ended too. It
// returns when the supervisor closes its end, that is, dies.
func (k *keeper) hold(asks int) {
	defer closeFD(asks)
	text, control := make([]byte, 256), make([]byte, unix.CmsgSpace(2*4))
	for {
		n, nc, _, _, err := unix.Recvmsg(asks, text, control, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return
		}
		ask := strings.TrimSuffix(string(text[:n]), "\n")
		k.asked(ask[:1], ask[1:], received(control[:nc]))
	}
}

func (k *keeper) asked(verb, key string, fifos []int) {
	if verb != keeperHold || k.held[key] != nil {
		for _, fd := range fifos {
			closeFD(fd)
		}
	}
	switch {
	case verb == keeperDrop:
		for _, fd := range k.held[key] {
			closeFD(fd)
		}
		delete(k.held, key)
	case verb == keeperHold && k.held[key] == nil:
		for n := 1; n <= 2 && len(fifos) < n; n++ {
			if fd, err := openFIFO(k.journal.fifo(key, n)); err == nil {
				fifos = append(fifos, fd)
			}
		}
		k.held[key] = fifos
	}
}

// received are the descriptors of a message.
func received(control []byte) (fds []int) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil
	}
	for i := range messages {
		if some, err := unix.ParseUnixRights(&messages[i]); err == nil {
			fds = append(fds, some...)
		}
	}
	return fds
}
