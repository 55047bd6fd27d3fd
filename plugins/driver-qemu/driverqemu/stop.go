// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverqemu

import (
	"context"
	"time"

	"github.com/drover-project/drover/plugins/internal/supervised"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	// pressEvery is the interval between presses of the power button, because a booting
	// guest ignores them.
	pressEvery = 5 * time.Second
	// flushTime is the time for QEMU to write out its disks before it is killed.
	flushTime = time.Second
	// monitorLimit is the time limit of one exchange with a monitor.
	monitorLimit = 3 * time.Second
	// quit is the signal on which QEMU exits in an orderly way: it powers the guest off
	// and flushes its disks.
	quit = "SIGTERM"
)

// StopTask implements driver.Driver. Without graceful_shutdown it cuts the VM's
// power. With it, it first asks the guest agent or presses the power button, and
// cuts the power just before timeout. The supervisor gets the kill at timeout right
// away, so that the kill happens even if this process dies.
func (d *Driver) StopTask(ctx context.Context, id string, timeout time.Duration, signal string) error {
	l, err := d.launchOf(ctx, id)
	if err != nil {
		return err
	}
	if signal == "" {
		signal = quit
	}
	if !l.Graceful {
		return d.Tasks.StopTask(ctx, id, timeout, signal)
	}
	if _, err := supervised.SignalNumber(signal, quit); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout+confirmLimit)
		defer cancel()
		ended <- d.Arm(limited, id, timeout)
	}()
	go d.shutDown(context.WithoutCancel(ctx), id, l, timeout)
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return errdefs.DeadlineExceededf("stop task %q: %w; it will be killed at its kill timeout", id, ctx.Err())
	}
}

// shutDown asks the guest to shut down until it has done so, and otherwise cuts the
// power.
func (d *Driver) shutDown(ctx context.Context, id string, l *launch, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = d.WaitTask(ctx, id) // returns if the VM ended, was destroyed, or the time is over
	}()
	cut := time.NewTimer(timeout - min(flushTime, timeout/10))
	defer cut.Stop()
	limited, end := context.WithTimeout(ctx, monitorLimit)
	_ = tell(limited, l, "cont") // a machine that stays paused is killed
	end()
	for {
		// A monitor that is busy now may answer the next time: the guest keeps all the
		// time that its task was given.
		_ = ask(ctx, l)
		press := time.After(pressEvery)
		select {
		case <-gone:
			return
		case <-cut.C:
			_ = d.Tasks.SignalTask(ctx, id, quit) // the VM has ended meanwhile, or the kill follows
			return
		case <-press:
		}
	}
}

// ask asks the guest to shut down: through its agent if that answers, otherwise with
// the power button.
func ask(ctx context.Context, l *launch) error {
	ctx, cancel := context.WithTimeout(ctx, monitorLimit)
	defer cancel()
	if l.GuestAgent && askAgent(ctx, l) == nil {
		return nil
	}
	m, err := openQMP(ctx, l)
	if err != nil {
		return err
	}
	defer m.close()
	return m.command("system_powerdown", nil, nil)
}

func askAgent(ctx context.Context, l *launch) error {
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	m, err := openGuestAgent(ctx, l)
	if err != nil {
		return err
	}
	defer m.close()
	// This command has no answer: the VM ends instead.
	return m.write("guest-shutdown", map[string]any{"mode": "powerdown"})
}
