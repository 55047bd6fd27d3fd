// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package plugincheck checks a built plugin, ours or one built for Nomad, against all
// rules that can be checked from outside: its handshake, its Info, its schemas, and
// the conformance checks of each contract that it serves, each in a fresh process. It
// owns the report, not the rules: those are in sdk/driver/v1/drivercheck,
// sdk/device/v1/devicecheck, sdk/network/v1/networkcheck, sdk/stats/v1/statscheck
// and sdk/volume/v1/volumecheck.
// cmd/drover imports it.
package plugincheck

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/sdk/conformance"
	"github.com/drover-project/drover/sdk/driver/v1/drivercheck"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
)

// Result is the result of one check, Outcome its outcome.
type (
	Result  = conformance.Result
	Outcome = conformance.Outcome
)

// The outcomes.
const (
	Passed  = conformance.Passed
	Failed  = conformance.Failed
	Skipped = conformance.Skipped
)

// Options selects the plugin and its checks.
type Options struct {
	// Path is the plugin's executable.
	Path string
	// Name restricts the checks to one driver, device plugin or collector.
	Name string
	// Skip are names of checks that are left out.
	Skip []string
	// Config is the agent config of the driver, device plugin, network plugin or collector.
	Config map[string]any
	// Task returns the config of a task that runs a /bin/sh script. Scripted is false
	// if it always returns the same task, one that runs until it is stopped. If Task
	// is nil, the task is derived from the schema, if possible.
	Task     func(script string) (map[string]any, error)
	Scripted bool
	// Timeout bounds each check; 0 means 30 s.
	Timeout time.Duration
	// Env is added to the few variables that a host gives to all plugins.
	Env []string
	// LogCollector is the command that reads the logs of plugins built for Nomad.
	LogCollector []string
	// Topology returns the topology of the machine's cores, which plugins built for Nomad
	// expect; nil means that it is not known.
	Topology func() *model.Topology
	// Watch, if set, is called with each result.
	Watch func(part string, r conformance.Result)
}

// Report is the result of all checks.
type Report struct {
	Path    string
	Name    string
	Version string
	// BuiltFor is "drover" or "nomad".
	BuiltFor string
	// Serves lists the contracts, as "driver v1".
	Serves []string
	// Start is the time from launch to handshake.
	Start time.Duration

	Parts                   []Part
	Passed, Failed, Skipped int
}

// Part contains the checks of the process, or of one name that it serves.
type Part struct {
	// Kind is "process", "driver", "device", "collector", "network", "volume" or
	// "registry".
	Kind    string
	Name    string
	Results []conformance.Result
}

// OK reports whether no check failed.
func (r *Report) OK() bool { return r.Failed == 0 }

// checker is one run.
type checker struct {
	opts   Options
	host   *pluginhost.Host
	report *Report
}

// Run checks the plugin. Problems of the plugin are in the report; an error means that
// it could not be checked at all.
func Run(ctx context.Context, opts Options) (*Report, error) {
	path, err := filepath.Abs(opts.Path)
	if err != nil {
		return nil, fmt.Errorf("check the plugin: %w", err)
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil, errdefs.NotFoundf("check the plugin: %s is not a file; build the plugin first", opts.Path)
	}
	opts.Path = path
	state, err := os.MkdirTemp("", "drover-check")
	if err != nil {
		return nil, fmt.Errorf("check the plugin: %w", err)
	}
	defer os.RemoveAll(state)
	host, err := pluginhost.New(pluginhost.Config{
		Dir: filepath.Dir(path), StateDir: state, Tied: true, LogCollector: opts.LogCollector, Topology: opts.Topology,
		// A separate state directory, so that the plugin does not find tasks of an agent on
		// this machine.
		Env: append([]string{plugin.StateDirEnv + "=" + filepath.Join(state, "plugin"), drivercheck.SecretVariable + "=of-the-agent"}, opts.Env...),
	})
	if err != nil {
		return nil, fmt.Errorf("check the plugin: %w", err)
	}
	defer conformance.EndProcesses(state)
	defer host.Close(false)
	c := &checker{opts: opts, host: host, report: &Report{Path: opts.Path}}
	return c.report, c.all(ctx)
}

func (c *checker) all(ctx context.Context) error {
	first := c.process(ctx)
	if first == nil {
		return ctx.Err() // without one, the report already says why nothing more can be checked
	}
	found := c.opts.Name == ""
	for _, d := range first.drivers {
		if c.wanted(d.Name) {
			found = true
			c.driver(ctx, d, first.foreign)
		}
	}
	for _, d := range first.devices {
		if c.wanted(d.Name) {
			found = true
			c.device(ctx, d.Name, d.ConfigSchema, first.foreign)
		}
	}
	for _, s := range first.collectors {
		if c.wanted(s.Name) {
			found = true
			c.collector(ctx, s.Name, s.ConfigSchema)
		}
	}
	for _, n := range first.networks {
		if c.wanted(n.Name) {
			found = true
			c.network(ctx, n.Name, n.ConfigSchema)
		}
	}
	for _, v := range first.volumes {
		if c.wanted(v.Name) {
			found = true
			c.volume(ctx, v.Name, v.ConfigSchema)
		}
	}
	for _, r := range first.registries {
		if c.wanted(r.Name) {
			found = true
			c.registry(ctx, r.Name, r.ConfigSchema)
		}
	}
	if !found {
		return errdefs.NotFoundf("the plugin serves nothing of the name %q; it serves %q", c.opts.Name, first.names())
	}
	return ctx.Err()
}

func (c *checker) wanted(name string) bool { return c.opts.Name == "" || c.opts.Name == name }

// part begins a part of the report.
func (c *checker) part(kind, name string) {
	c.report.Parts = append(c.report.Parts, Part{Kind: kind, Name: name})
}

// check runs one check and adds its result to the last part of the report.
func (c *checker) check(name, rule string, run func() conformance.Result) conformance.Result {
	var r conformance.Result
	if slices.Contains(c.opts.Skip, name) {
		r = conformance.Result{Name: name, Rule: rule, Outcome: conformance.Skipped, Reason: "left out on request"}
	} else {
		r = run()
	}
	switch r.Outcome {
	case conformance.Failed:
		c.report.Failed++
	case conformance.Skipped:
		c.report.Skipped++
	default:
		c.report.Passed++
	}
	p := &c.report.Parts[len(c.report.Parts)-1]
	p.Results = append(p.Results, r)
	if c.opts.Watch != nil {
		c.opts.Watch(title(*p), r)
	}
	return r
}

func title(p Part) string {
	if p.Name == "" {
		return p.Kind
	}
	return fmt.Sprintf("%s %q", p.Kind, p.Name)
}
