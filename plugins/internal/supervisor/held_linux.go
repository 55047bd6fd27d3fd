// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervisor

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// The protocol by which the supervisor tells the keeper which FIFOs to hold open:
// one message per task, consisting of a verb, the task's key and a line feed. A
// message keeperHold carries the task's FIFOs as descriptors. The kernel keeps these
// open while the message is queued, so a task's last output is safe from the moment
// the message is sent.
//
// A supervisor of an older version sends the same text without descriptors.
const (
	keeperHold = "+"
	keeperDrop = "-"
)

// askBuffer is the size in bytes of the queue of messages to the keeper. A message
// takes about 1 KiB of kernel memory.
const askBuffer = 4 << 20

// askSockets creates the sockets between keeper and supervisor.
func askSockets() (fds [2]int, err error) {
	fds, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fds, fmt.Errorf("make a socket for the supervisor: %w", err)
	}
	// Without the privilege the buffer keeps its default size, which is enough for 200
	// concurrent starts.
	_ = unix.SetsockoptInt(fds[1], unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, askBuffer)
	return fds, nil
}

// askToHold asks the keeper to hold the FIFOs of a task open.
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

// dropHeld asks the keeper to close the FIFOs of a task.
func (l *loop) dropHeld(key string) { l.askKeeper(keeperDrop+key, nil) }

// askKeeper sends a message without waiting. It ignores errors, since the supervisor
// works without a keeper too.
func (l *loop) askKeeper(ask string, rights []byte) {
	err := unix.Sendmsg(l.keeper, []byte(ask+"\n"), rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	if err == unix.ENOTSOCK { // the keeper is of an older version
		_, _ = unix.Write(l.keeper, []byte(ask+"\n")) // errors are ignored here too
	}
}

// hold holds the FIFOs of tasks open on request of the supervisor, so that their
// content survives the supervisor even if the task has ended too. It returns when
// the supervisor dies and its end of the socket is closed.
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

// received returns the descriptors of a message.
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
