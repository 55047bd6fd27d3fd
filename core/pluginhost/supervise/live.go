// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package supervise

import (
	"context"
	"time"

	"github.com/drover-project/drover/core/pluginhost/kinds"
	"github.com/drover-project/drover/core/pluginhost/process"
)

// live is a process that currently serves.
type live struct {
	proc   *process.Process
	parts  kinds.Parts
	began  time.Time
	cancel context.CancelFunc
	lost   chan error // receives, once, why it can no longer serve
}

// ending returns the channel that reports the end of the process; nil if there is
// none.
func (l *live) ending() <-chan error {
	if l == nil {
		return nil
	}
	return l.lost
}

// close takes a lost process out of service.
func (l *live) close(reason error) {
	l.detach(reason)
	l.proc.Kill()
}

func (l *live) detach(reason error) {
	l.cancel()
	for _, one := range l.parts {
		one.Detach(reason)
	}
}

// serves returns the names that a process serves; none for nil.
func (l *live) serves() []string {
	if l == nil {
		return nil
	}
	return l.parts.Names()
}
