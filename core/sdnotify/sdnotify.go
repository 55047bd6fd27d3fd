// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package sdnotify tells systemd what the agent does: that it is ready, reloads, stops,
// and lives. It speaks the protocol of sd_notify(3): datagrams to the socket that
// NOTIFY_SOCKET names. Without one it does nothing. cmd/drover imports it.
package sdnotify

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// sendLimit is the time limit for one message: systemd may be busy, and the agent does
// not wait for it.
const sendLimit = time.Second

// Notifier sends messages to systemd. The zero value sends none.
type Notifier struct {
	socket   string
	watchdog time.Duration
}

// FromEnvironment returns the Notifier of this process, and removes the variables, so
// that no child of the agent speaks for it.
func FromEnvironment(lookup func(string) (string, bool), remove func(string) error, pid int) *Notifier {
	n := &Notifier{}
	n.socket, _ = lookup("NOTIFY_SOCKET")
	usec, _ := lookup("WATCHDOG_USEC")
	whose, given := lookup("WATCHDOG_PID")
	if us, err := strconv.ParseInt(usec, 10, 64); err == nil && us > 0 && (!given || whose == strconv.Itoa(pid)) && n.socket != "" {
		n.watchdog = time.Duration(us) * time.Microsecond
	}
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		_ = remove(name) // fails only for names that are none
	}
	return n
}

// Ready says that the agent has started, or has reloaded its configuration.
func (n *Notifier) Ready(status string) error { return n.send("READY=1", "STATUS="+oneLine(status)) }

// Reloading says that the configuration is being read; Ready follows.
func (n *Notifier) Reloading() error {
	at, err := monotonic()
	if err != nil {
		return err
	}
	return n.send("RELOADING=1", "MONOTONIC_USEC="+strconv.FormatInt(at.Microseconds(), 10), "STATUS=Reading the configuration")
}

// Stopping says that the agent ends.
func (n *Notifier) Stopping(status string) error {
	return n.send("STOPPING=1", "STATUS="+oneLine(status))
}

// Status says what the agent does.
func (n *Notifier) Status(status string) error { return n.send("STATUS=" + oneLine(status)) }

// Extend asks for more time to start or to stop than the unit allows.
func (n *Notifier) Extend(by time.Duration) error {
	return n.send("EXTEND_TIMEOUT_USEC=" + strconv.FormatInt(by.Microseconds(), 10))
}

// Watch calls alive three times per period of the watchdog, and tells systemd when it
// returns nil. If it does not, systemd ends the agent after the period. Errors go to
// report. Without a watchdog Watch returns at once.
func (n *Notifier) Watch(ctx context.Context, alive func(context.Context) error, report func(error)) {
	if n.watchdog == 0 {
		return
	}
	pause := n.watchdog / 3
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		within, cancel := context.WithTimeout(ctx, pause)
		err := alive(within)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = n.send("WATCHDOG=1")
		}
		if err != nil {
			report(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// oneLine keeps a status from being read as several assignments.
func oneLine(text string) string { return strings.ReplaceAll(text, "\n", "; ") }

func (n *Notifier) send(lines ...string) error {
	if n.socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("tell systemd: %w", err)
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(sendLimit)); err != nil {
		return fmt.Errorf("tell systemd: %w", err)
	}
	if _, err := conn.Write([]byte(strings.Join(lines, "\n"))); err != nil {
		return fmt.Errorf("tell systemd: %w", err)
	}
	return nil
}
