// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package devicetest checks that a device plugin keeps the contract of
// sdk/device/v1. It owns the checks and the three ways to run them: in process,
// over gRPC, and in a real plugin process that is killed. It owns no plugin.
// Only tests import it:
//
//	func TestContract(t *testing.T) {
//		devicetest.Run(t, devicetest.Options{New: func(t *testing.T) device.Device { return fpga.New() }})
//	}
package devicetest

import (
	"context"
	"encoding/json"
	"os/exec"
	"testing"
	"time"

	device "github.com/drover-project/drover/sdk/device/v1"
	"github.com/drover-project/drover/sdk/plugin/plugintest"
)

// Options says what is checked and how.
type Options struct {
	// New makes the plugin as a fresh process would. If nil, the checks in
	// process and over gRPC are left out.
	New func(t *testing.T) device.Device
	// Binary is the path of a built plugin, Env its environment and Name the
	// device plugin in it; if Binary is empty, the checks in a real process are
	// left out.
	Binary string
	Env    []string
	Name   string
	// Config is the agent config; nil means empty.
	Config map[string]any
	// Timeout bounds each check; 0 means 30 s.
	Timeout time.Duration
	// MayBeAbsent allows that there is no device on this machine: then the plugin
	// has to say so and the checks of devices are skipped.
	MayBeAbsent bool
}

// Run runs all checks in all ways that opts allows.
func Run(t *testing.T, opts Options) {
	t.Helper()
	if opts.Timeout == 0 {
		opts.Timeout = 30 * time.Second
	}
	if opts.New == nil && opts.Binary == "" {
		t.Fatal("devicetest: set New, Binary or both")
	}
	if opts.New != nil {
		t.Run("in process", func(t *testing.T) { all(t, opts, inProcess) })
		t.Run("over gRPC", func(t *testing.T) { all(t, opts, overGRPC) })
	}
	if opts.Binary != "" {
		t.Run("as a plugin process", func(t *testing.T) { all(t, opts, asProcess) })
	}
}

// connected is a plugin to check, and how its process dies.
type connected struct {
	device.Device
	die func()
}

type connect func(t *testing.T, opts Options) connected

func inProcess(t *testing.T, opts Options) connected {
	return connected{Device: opts.New(t), die: func() {}}
}

func overGRPC(t *testing.T, opts Options) connected {
	t.Helper()
	conn, die := plugintest.Serve(t, device.Service(opts.New(t)))
	devices, err := device.Connect(t.Context(), conn)
	if err != nil || len(devices) != 1 {
		t.Fatalf("connect: %d device plugins, %v", len(devices), err)
	}
	return connected{Device: devices[0], die: die}
}

func asProcess(t *testing.T, opts Options) connected {
	t.Helper()
	cmd := exec.Command(opts.Binary)
	cmd.Env = opts.Env
	conn, die := plugintest.Launch(t, cmd)
	devices, err := device.Connect(t.Context(), conn)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	for _, d := range devices {
		if opts.Name == "" || d.Info().Name == opts.Name {
			return connected{Device: d, die: die}
		}
	}
	t.Fatalf("plugin %s has no device plugin %q", opts.Binary, opts.Name)
	return connected{}
}

// bench is what one check works with.
type bench struct {
	t       *testing.T
	ctx     context.Context
	opts    Options
	d       connected
	connect connect
}

func all(t *testing.T, opts Options, connect connect) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), opts.Timeout)
			defer cancel()
			b := &bench{t: t, ctx: ctx, opts: opts, connect: connect}
			b.d = b.open()
			c.run(b)
		})
	}
}

// open connects to a fresh plugin and configures it.
func (b *bench) open() connected {
	b.t.Helper()
	d := b.connect(b.t, b.opts)
	schema := d.Info().ConfigSchema
	applied, err := schema.Apply(b.opts.Config)
	if err != nil {
		b.t.Fatalf("Options.Config does not fit the plugin's schema: %v", err)
	}
	body, err := json.Marshal(applied)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := d.SetConfig(b.ctx, body); err != nil {
		b.t.Fatalf("SetConfig: %v", err)
	}
	return d
}

// groups returns what the plugin finds first.
func (b *bench) groups(d device.Device) []device.Group {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	prints, err := d.Fingerprint(ctx)
	if err != nil {
		b.t.Fatalf("Fingerprint: %v", err)
	}
	f, ok := receive(b, prints, "the first fingerprint")
	if !ok {
		b.t.Fatal("the stream of fingerprints ended at once")
	}
	if len(f.Groups) == 0 {
		if f.Problem == "" {
			b.t.Fatal("no device, and no Problem that says why")
		}
		if !b.opts.MayBeAbsent {
			b.t.Fatalf("no device on this machine: %s", f.Problem)
		}
		b.t.Skipf("no device on this machine: %s", f.Problem)
	}
	return f.Groups
}

func receive[T any](b *bench, ch <-chan T, what string) (T, bool) {
	b.t.Helper()
	select {
	case v, ok := <-ch:
		return v, ok
	case <-b.ctx.Done():
		b.t.Fatalf("%s did not come within %s", what, b.opts.Timeout)
	}
	var none T
	return none, false
}

// ended waits until a channel is closed.
func ended[T any](b *bench, ch <-chan T, what string) {
	b.t.Helper()
	for {
		if _, ok := receive(b, ch, "the end of "+what); !ok {
			return
		}
	}
}
