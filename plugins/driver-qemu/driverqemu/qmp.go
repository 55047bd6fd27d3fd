// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverqemu

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"
)

// monitor is a connection to a VM's monitor (QMP) or to its guest agent. Both use
// one JSON object per line. It runs one command at a time and is closed after a few
// commands, because QEMU serves one connection at a time and other clients may be
// waiting.
type monitor struct {
	conn  net.Conn
	lines *bufio.Scanner
}

// maxReply is the length in bytes of a line from a monitor. The limit exists because
// guest agents are not trusted.
const maxReply = 1 << 20

func newMonitor(ctx context.Context, dir, socket string) (*monitor, error) {
	limit := 5 * time.Second
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline))
	}
	conn, err := connect(dir, socket, limit)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	m := &monitor{conn: conn, lines: bufio.NewScanner(conn)}
	m.lines.Buffer(nil, maxReply)
	return m, nil
}

func (m *monitor) close() { _ = m.conn.Close() } // all answers were read

// openQMP connects to the monitor of a VM. The monitor accepts commands once QEMU
// has created the VM.
func openQMP(ctx context.Context, l *launch) (*monitor, error) {
	m, err := newMonitor(ctx, l.RunDir, monitorSocket)
	if err != nil {
		return nil, fmt.Errorf("connect to the machine's monitor: %w", err)
	}
	var greeting struct {
		QMP json.RawMessage `json:"QMP"`
	}
	if err = m.read(&greeting); err == nil && greeting.QMP == nil {
		err = errors.New("it does not greet as one")
	}
	if err == nil {
		err = m.command("qmp_capabilities", nil, nil)
	}
	if err != nil {
		m.close()
		return nil, fmt.Errorf("greet the machine's monitor: %w", err)
	}
	return m, nil
}

// openGuestAgent connects to a VM's guest agent. It skips the rest of an interrupted
// earlier exchange.
func openGuestAgent(ctx context.Context, l *launch) (*monitor, error) {
	m, err := newMonitor(ctx, l.TaskDir, guestAgentSocket)
	if err != nil {
		return nil, fmt.Errorf("connect to the guest agent: %w", err)
	}
	id := rand.Int64N(1 << 52)
	if err = m.write("guest-sync", map[string]any{"id": id}); err == nil {
		err = m.readUntil(id)
	}
	if err != nil {
		m.close()
		return nil, fmt.Errorf("ask the guest agent: %w", err)
	}
	return m, nil
}

// readUntil skips answers until the answer to guest-sync.
func (m *monitor) readUntil(id int64) error {
	for {
		var reply struct {
			Return json.RawMessage `json:"return"`
		}
		if err := m.read(&reply); err != nil {
			return err
		}
		var got int64
		if json.Unmarshal(reply.Return, &got) == nil && got == id {
			return nil
		}
	}
}

func (m *monitor) write(command string, args any) error {
	body, err := request(command, args)
	if err == nil {
		_, err = m.conn.Write(body)
	}
	return err
}

// request returns the line that asks for a command.
func request(command string, args any) ([]byte, error) {
	line := map[string]any{"execute": command}
	if args != nil {
		line["arguments"] = args
	}
	body, err := json.Marshal(line)
	return append(body, '\n'), err
}

// read reads one line.
func (m *monitor) read(into any) error {
	if !m.lines.Scan() {
		if err := m.lines.Err(); err != nil {
			return err
		}
		return io.ErrUnexpectedEOF
	}
	return json.Unmarshal(m.lines.Bytes(), into)
}

// command runs a command and decodes its answer.
func (m *monitor) command(name string, args, into any) error {
	if err := m.write(name, args); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return m.answer(name, into)
}

// answer decodes the answer to a command. Events before it are skipped.
func (m *monitor) answer(name string, into any) error {
	for {
		var reply struct {
			Event  string          `json:"event"`
			Return json.RawMessage `json:"return"`
			Error  *struct {
				Class string `json:"class"`
				Desc  string `json:"desc"`
			} `json:"error"`
		}
		if err := m.read(&reply); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		switch {
		case reply.Event != "":
			continue
		case reply.Error != nil:
			return fmt.Errorf("%s: %s (%s)", name, reply.Error.Desc, reply.Error.Class)
		case into != nil:
			return json.Unmarshal(reply.Return, into)
		}
		return nil
	}
}
