// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/sleep"
	"github.com/drover-project/drover/sdk/errdefs"
)

// locker is one run of "var lock".
type locker struct {
	*session
	path       string
	ttl, delay time.Duration
	backoff    time.Duration
	retries    int
	early      bool
	shell      bool
}

func varLock() spec {
	return spec{
		usage: "var lock [options] <path> <command> [<args>...]", synopsis: "Runs a command while it holds the lock of a variable", min: 2, max: -1, raw: 2, takes: "vars",
		help: "The variable is created if it does not exist. The exit code is the exit code of the command.\nIf the lock is lost, the command is interrupted, and on Linux everything that it has started too; what still runs\nafter 10s is killed.",
		setup: func(fs *flag.FlagSet) run {
			l := &locker{}
			fs.DurationVar(&l.ttl, "ttl", 15*time.Second, "Time after which the lock expires unless it is renewed; 10s to 24h.")
			fs.DurationVar(&l.delay, "delay", 15*time.Second, "Time for which nobody can acquire the lock after it was lost.")
			fs.DurationVar(&l.backoff, "backoff", time.Second, "Pause before the next attempt to acquire the lock; it doubles up to a minute.")
			fs.IntVar(&l.retries, "max-retry", 5, "Number of further attempts to acquire the lock; -1 means no limit.")
			fs.BoolVar(&l.early, "early-return", false, "Exits with 0 at once if somebody else holds the lock.")
			fs.BoolVar(&l.shell, "shell", true, "Runs the command in a shell.")
			return func(ctx context.Context, s *session, args []string) error {
				l.session, l.path = s, args[0]
				return l.run(ctx, args[1:])
			}
		},
	}
}

func (l *locker) run(ctx context.Context, command []string) error {
	held, err := l.acquire(ctx, l.path)
	if err != nil || held == nil {
		return err
	}
	if l.verbose {
		l.printf("Lock of %q acquired", l.path)
	}
	ctx, lose := context.WithCancelCause(ctx)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		if err := l.keep(ctx, held); err != nil {
			lose(fmt.Errorf("the lock of %q was lost, so the command was ended: %w", l.path, err))
		}
	}()
	err = l.command(ctx, command)
	lost := context.Cause(ctx)
	lose(nil)
	<-renewed
	release, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if _, relErr := l.client.LockVariable(release, "release", held); relErr != nil && lost == nil {
		fmt.Fprintf(l.Err, "The lock of %q could not be released; it expires after %s: %s\n", l.path, l.ttl, client.Text(relErr))
	}
	if lost != nil && !errors.Is(lost, context.Canceled) {
		return lost
	}
	return err
}

// acquire takes the lock. It returns nil if somebody else holds it and -early-return
// was given.
func (l *locker) acquire(ctx context.Context, path string) (*client.Variable, error) {
	want := &client.Variable{Path: path, Lock: &client.VariableLock{TTL: l.ttl.String(), LockDelay: l.delay.String()}}
	pause := l.backoff
	for try := 0; ; try++ {
		held, err := l.client.LockVariable(ctx, "acquire", want)
		switch {
		case err == nil:
			return &client.Variable{Path: path, Lock: held.Lock}, nil
		case errdefs.IsConflict(err) && l.early:
			return nil, nil
		case !errdefs.IsConflict(err) && !errdefs.IsUnavailable(err):
			return nil, err
		case l.retries >= 0 && try >= l.retries:
			if errdefs.IsConflict(err) {
				return nil, fmt.Errorf("somebody else holds the lock of %q; wait longer with -max-retry", path)
			}
			return nil, err
		}
		if err := sleep.For(ctx, pause); err != nil {
			return nil, err
		}
		pause = min(pause*2, time.Minute)
	}
}

// keep renews the lock until ctx ends. It returns an error once the lock must have
// expired.
func (l *locker) keep(ctx context.Context, held *client.Variable) error {
	tick := time.NewTicker(max(l.ttl/3, time.Second))
	defer tick.Stop()
	ends := time.Now().Add(l.ttl)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		began := time.Now()
		err := l.renew(ctx, held, ends)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			ends = began.Add(l.ttl)
		case errdefs.IsConflict(err) || !time.Now().Before(ends):
			return err
		}
	}
}

// renew waits for an answer only as long as the lock can be held: an agent that hangs must not
// keep the command running longer.
func (l *locker) renew(ctx context.Context, held *client.Variable, ends time.Time) error {
	ctx, cancel := context.WithDeadlineCause(ctx, ends, errdefs.DeadlineExceededf("the agent did not renew it within %s", l.ttl))
	defer cancel()
	_, err := l.client.LockVariable(ctx, "renew", held)
	return err
}

// endWithin is how long a command and what it has started may take to end when the lock is lost
// or the user interrupts. After this time they are killed.
const endWithin = 10 * time.Second

// command runs the command until it ends, the lock is lost or the user interrupts. In the last
// two cases everything that the command has started ends too, because it must not run without
// the lock: a shell does not pass a signal on to the programs that it runs.
func (l *locker) command(ctx context.Context, args []string) error {
	if l.shell {
		args = []string{"/bin/sh", "-c", strings.Join(args, " ")}
	}
	if err := adoptOrphans(); err != nil {
		return fmt.Errorf("become the parent of what the command leaves behind: %w", err)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = l.In, underlying(l.Out), l.Err
	cmd.Env = append(os.Environ(), "DROVER_LOCK_PATH="+l.path)
	var asked time.Time
	cmd.Cancel = func() error {
		asked = time.Now()
		return interruptAll(cmd.Process)
	}
	cmd.WaitDelay = endWithin
	err := cmd.Run()
	if !asked.IsZero() {
		endAll(endWithin - time.Since(asked))
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		return &exitCode{code: exit.ExitCode()}
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case exit != nil:
		return fmt.Errorf("the command was ended: %s", exit.ProcessState)
	case err != nil:
		return fmt.Errorf("the command could not be run: %w", err)
	}
	return nil
}
