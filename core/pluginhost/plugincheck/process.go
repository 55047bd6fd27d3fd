// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugincheck

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/device"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/pluginhost/stats"
	"github.com/drover-project/drover/sdk/conformance"
	network "github.com/drover-project/drover/sdk/network/v1"
	registry "github.com/drover-project/drover/sdk/registry/v1"
	"github.com/drover-project/drover/sdk/schema"
	volume "github.com/drover-project/drover/sdk/volume/v1"
)

// look is what one process of the plugin reported about itself.
type look struct {
	foreign bool
	version string
	drivers []driver.Info
	devices []device.Info
	// collectors measure the machine.
	collectors []stats.Info
	networks   []network.Info
	volumes    []volume.Info
	registries []registry.Info
}

func (l *look) names() []string {
	return slices.Concat(l.deviceNames(), l.driverNames(), l.collectorNames(), l.networkNames(), l.volumeNames(), l.registryNames())
}

func (l *look) collectorNames() []string {
	var out []string
	for _, c := range l.collectors {
		out = append(out, c.Name)
	}
	return out
}

func (l *look) networkNames() []string {
	var out []string
	for _, n := range l.networks {
		out = append(out, n.Name)
	}
	return out
}

func (l *look) volumeNames() []string {
	var out []string
	for _, v := range l.volumes {
		out = append(out, v.Name)
	}
	return out
}

func (l *look) registryNames() []string {
	var out []string
	for _, r := range l.registries {
		out = append(out, r.Name)
	}
	return out
}

func (l *look) deviceNames() []string {
	var out []string
	for _, d := range l.devices {
		out = append(out, d.Name)
	}
	return out
}

func (l *look) driverNames() []string {
	var out []string
	for _, d := range l.drivers {
		out = append(out, d.Name)
	}
	return out
}

// byHand limits how long a process that no host started may take to print that and exit.
const byHand = 10 * time.Second

// process checks the rules for plugins of every kind. It returns nil if there is no process
// to talk to.
func (c *checker) process(ctx context.Context) *look {
	c.part("process", "")
	var first *look
	c.own(ctx, "handshake", "the process starts, shakes hands and says what it is within 10 s", func(t *conformance.T) {
		first = c.look(t)
	})
	c.own(ctx, "by-hand", "a process that no host started ends by itself, with an exit code, and says what it is", c.checkByHand)
	if first == nil {
		return nil
	}
	c.own(ctx, "process-info", "the process has a name and a version, and the names of what it serves differ", func(t *conformance.T) {
		c.checkNames(t, first)
	})
	c.own(ctx, "killed", "after the process was killed a new one says the same", func(t *conformance.T) {
		again := c.look(t)
		if !slices.Equal(again.names(), first.names()) {
			t.Fatalf("the first process served %q and the next %q", first.names(), again.names())
		}
		// A connection asks for each Info once, so that only another process can show that it differs.
		if !reflect.DeepEqual(again, first) {
			t.Errorf("the first process said of itself: %+v\nand the next: %+v", *first, *again)
		}
	})
	return first
}

// own runs a check of this package, unless the run was interrupted.
func (c *checker) own(ctx context.Context, name, rule string, f func(*conformance.T)) conformance.Result {
	if ctx.Err() != nil {
		return conformance.Result{Name: name, Rule: rule, Outcome: conformance.Skipped, Reason: "interrupted"}
	}
	return c.check(name, rule, func() conformance.Result { return c.run(ctx, name, rule, f) })
}

func (c *checker) run(ctx context.Context, name, rule string, f func(*conformance.T)) conformance.Result {
	limit := c.opts.Timeout
	if limit == 0 {
		limit = 30 * time.Second
	}
	return conformance.Run(ctx, name, rule, limit, f)
}

// look launches a process, records what it reports and kills it.
func (c *checker) look(t *conformance.T) *look {
	o, err := c.host.Open(t.Context(), c.opts.Path)
	if err != nil {
		t.Fatalf("%v", err)
	}
	defer o.Kill()
	c.describe(o)
	l := &look{foreign: o.Foreign, version: o.Info.Version}
	for _, d := range o.Drivers {
		l.drivers = append(l.drivers, d.Info())
	}
	for _, d := range o.Devices {
		l.devices = append(l.devices, d.Info())
	}
	for _, b := range o.Collectors {
		l.collectors = append(l.collectors, b.Info())
	}
	for _, b := range o.Networks {
		l.networks = append(l.networks, b.Info())
	}
	for _, b := range o.Volumes {
		l.volumes = append(l.volumes, b.Info())
	}
	for _, b := range o.Registries {
		l.registries = append(l.registries, b.Info())
	}
	return l
}

func (c *checker) describe(o *pluginhost.Opened) {
	r := c.report
	r.Name, r.Version, r.BuiltFor, r.Start, r.Serves = o.Info.Name, o.Info.Version, "drover", o.Took, nil
	if o.Foreign {
		r.BuiltFor = "nomad"
	}
	for _, k := range o.Info.Kinds {
		r.Serves = append(r.Serves, k.String())
	}
}

// checkByHand starts the process as a curious user does. The exit code may be any except 0,
// because the plugin has done nothing.
func (c *checker) checkByHand(t *conformance.T) {
	ctx, cancel := context.WithTimeout(t.Context(), byHand)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.opts.Path)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		t.Errorf("it still ran after %s; look for the handshake's variable in the environment first", byHand)
	case err == nil:
		t.Errorf("it ended with exit code 0 though it did nothing")
	case !errors.As(err, &exit):
		t.Errorf("it cannot be started: %v", err)
	case strings.TrimSpace(said.String()) == "":
		t.Errorf("it ended with exit code %d and said nothing", exit.ExitCode())
	}
}

func (c *checker) checkNames(t *conformance.T, l *look) {
	if c.report.Name == "" || c.report.Version == "" {
		t.Errorf("name %q, version %q: both must be set", c.report.Name, c.report.Version)
	}
	for kind, names := range map[string][]string{
		"driver": l.driverNames(), "device plugin": l.deviceNames(), "collector": l.collectorNames(),
		"network plugin": l.networkNames(), "storage plugin": l.volumeNames(), "registry": l.registryNames(),
	} {
		slices.Sort(names)
		if len(slices.Compact(slices.Clone(names))) != len(names) {
			t.Errorf("two of kind %s have the same name: %q", kind, names)
		}
	}
	l.checkBlocks(t)
	if len(l.names()) == 0 {
		t.Errorf("it serves %q and there is nothing in it", c.report.Serves)
	}
}

// checkBlocks checks that no two kinds of the plugin use one name with different schemas:
// the agent's configuration has one block per name.
func (l *look) checkBlocks(t *conformance.T) {
	hashes := map[string]string{}
	check := func(name string, accepts schema.Schema) {
		hash := accepts.Hash()
		if other, taken := hashes[name]; taken && other != hash {
			t.Errorf("several things of the name %q want different configs, and the agent's configuration has one block plugin %q for all of them; give each a name of its own", name, name)
		}
		hashes[name] = hash
	}
	for _, d := range l.drivers {
		check(d.Name, d.ConfigSchema)
	}
	for _, d := range l.devices {
		check(d.Name, d.ConfigSchema)
	}
	for _, c := range l.collectors {
		check(c.Name, c.ConfigSchema)
	}
	for _, n := range l.networks {
		check(n.Name, n.ConfigSchema)
	}
	for _, v := range l.volumes {
		check(v.Name, v.ConfigSchema)
	}
	for _, r := range l.registries {
		check(r.Name, r.ConfigSchema)
	}
}
