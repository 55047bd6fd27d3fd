// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/drover-project/drover/core/agentlog"
	"github.com/drover-project/drover/core/config"
)

// logOptions returns the configured options of the log.
func logOptions(c *config.Config) agentlog.Options {
	facility := c.SyslogFacility
	if facility == "" {
		facility = "LOCAL0"
	}
	return agentlog.Options{
		Level: c.LogLevel, JSON: c.LogJSON, Location: c.LogLocation, File: c.LogFile, Syslog: c.EnableSyslog, Facility: facility,
		Rotation: agentlog.Rotation{Bytes: c.LogRotateBytes, Every: c.RotateEvery(), Keep: c.LogRotateMaxFiles},
	}
}

// Apply makes the changes of a configuration that was read again take effect, and logs
// which of them need a restart. A key whose change fails keeps its old value, and the next
// Apply tries it again.
func (d *Daemon) Apply(next *config.Config) error {
	before := d.cfg()
	now, taken, left := before.Reload(next)
	var errs []error
	failed := func(err error, back func()) {
		if err != nil {
			errs = append(errs, err)
			back()
		}
	}
	failed(d.log.Apply(logOptions(now)), func() { now.KeepLog(before) })
	if d.tls != nil {
		failed(d.tls.Reload(machineTLS(now)), func() { now.TLS = before.TLS })
	}
	if addresses := now.Client.ServerAddresses(); d.link != nil && !slices.Equal(addresses, before.Client.ServerAddresses()) {
		failed(d.SetServers(addresses), func() { now.Client.Servers, now.Client.ServerJoin = before.Client.Servers, before.Client.ServerJoin })
	}
	if workers := workersOf(now); d.server != nil && workers != workersOf(before) {
		failed(d.server.Workers().Set(workers), func() { now.Server.NumSchedulers = before.Server.NumSchedulers })
	}
	d.conf.Store(now)
	for _, w := range next.Warnings {
		if !slices.Contains(before.Warnings, w) {
			d.log.Warn(w)
		}
	}
	if len(left) > 0 {
		d.log.Warn("these keys have changed in the configuration and take effect only after a restart of the agent; tasks run on meanwhile", "keys", strings.Join(left, ", "))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("not all changes of the configuration took effect: %w", err)
	}
	if len(taken)+len(left) == 0 {
		d.log.Info("configuration reloaded; nothing in it has changed")
		return nil
	}
	d.log.Info("configuration reloaded", "changed", strings.Join(taken, ", "))
	return nil
}

// workersOf returns the number of scheduler workers.
func workersOf(c *config.Config) int {
	if n := c.Server.NumSchedulers; n != nil {
		return *n
	}
	return runtime.NumCPU()
}
