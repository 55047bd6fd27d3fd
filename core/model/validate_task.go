// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/checksum"
)

// MinMemoryMB is the least memory that a task may ask for.
const MinMemoryMB = 10

// MaxAmount is the most MHz, MB, cores or devices that one task may ask for, and the most
// MB of a group's disk: more than any machine has. Sums of such amounts, and their bytes,
// do not overflow, so a request that is too large never looks as if it fitted.
const MaxAmount = 1 << 40

// atMost rejects an amount over MaxAmount.
func (p *ValidationError) atMost(what string, n int64) {
	if n > MaxAmount {
		p.addf("%s is %d; at most %d can be asked for", what, n, int64(MaxAmount))
	}
}

// validate returns the problems of the task within its group.
func (t *Task) validate(j *Job, tg *TaskGroup) ValidationError {
	var p ValidationError
	validateName(&p, "Task", t.Name)
	if t.Driver == "" {
		p.addf("Missing task driver")
	}
	if t.KillTimeout < 0 {
		p.addf("KillTimeout must be a positive value")
	}
	if t.KillSignal != "" && !isSignal(t.KillSignal) {
		p.addf("kill_signal: "+unknownSignal, t.KillSignal)
	}
	if t.ShutdownDelay < 0 {
		p.addf("ShutdownDelay must be a positive value")
	}
	t.validateResources(&p)
	t.validateLogs(&p, tg)
	validateConstraints(&p, t.Constraints)
	validateAffinities(&p, t.Affinities)
	for _, c := range t.Constraints {
		if c.Operand == ConstraintDistinctHosts || c.Operand == ConstraintDistinctProperty {
			p.addf("Constraint has disallowed Operand at task level: %s", c.Operand)
		}
	}
	if len(t.Affinities) > 0 && (j.Type == JobTypeSystem || j.Type == JobTypeSysBatch) {
		p.addf("System jobs may not have an affinity block")
	}
	if t.RestartPolicy != nil {
		t.RestartPolicy.validate(&p)
	}
	t.validateLifecycle(&p)
	t.validateSchedule(&p)
	tg.validateServices(&p, t.Services, tg.portLabels(t), false)
	t.validatePaths(&p)
	t.validateMounts(&p, tg)
	t.validateActions(&p)
	t.validateCSIPlugin(&p)
	t.validateIdentities(&p)
	t.validateScaling(&p)
	return p
}

// validateScaling checks that an autoscaler finds one policy for each thing that it scales, with bounds that it can keep.
func (t *Task) validateScaling(p *ValidationError) {
	count := map[string]int{}
	for _, s := range t.ScalingPolicies {
		if count[s.Type]++; count[s.Type] == 2 {
			p.addf("task has 2 scaling policies of type %q; write one", s.Type)
		}
		s.validateBounds(p)
	}
}

func (t *Task) validateResources(p *ValidationError) {
	r := t.Resources
	if r == nil {
		p.addf("Missing task resources")
		return
	}
	if r.Cores < 0 || r.CPU < 0 {
		p.addf("Task resources must not be negative (cpu %d, cores %d)", r.CPU, r.Cores)
	}
	if r.Cores > 0 && r.CPU > 0 {
		p.addf("Task can only ask for 'cpu' or 'cores' resource, not both.")
	}
	if r.Cores == 0 && r.CPU < 1 {
		p.addf("minimum CPU value is 1; got %d", r.CPU)
	}
	if r.MemoryMB < MinMemoryMB {
		p.addf("minimum MemoryMB value is %d; got %d", MinMemoryMB, r.MemoryMB)
	}
	if r.MemoryMaxMB != 0 && r.MemoryMaxMB != -1 && r.MemoryMaxMB < r.MemoryMB {
		p.addf("MemoryMaxMB value (%d) should be larger than MemoryMB value (%d)", r.MemoryMaxMB, r.MemoryMB)
	}
	if r.SecretsMB < 0 || r.DiskMB < 0 {
		p.addf("Task resources must not be negative (disk %d, secrets %d)", r.DiskMB, r.SecretsMB)
	}
	for _, a := range []struct {
		what string
		n    int
	}{{"cpu", r.CPU}, {"cores", r.Cores}, {"memory", r.MemoryMB}, {"memory_max", r.MemoryMaxMB}, {"disk", r.DiskMB}, {"secrets", r.SecretsMB}} {
		p.atMost(a.what, int64(a.n))
	}
	for i, d := range r.Devices {
		if d.Name == "" {
			p.addf("device %d: missing name", i+1)
		}
		p.atMost(fmt.Sprintf("count of device %q", d.Name), int64(min(d.Count, math.MaxInt64)))
		if d.Count == 0 {
			p.addf("device %q: count must be at least 1", d.Name)
		}
		validateConstraints(p, d.Constraints)
		validateAffinities(p, d.Affinities)
	}
	if n := r.NUMA; n != nil {
		switch n.Affinity {
		case NUMANone, NUMAPrefer, NUMARequire:
		default:
			p.addf("numa affinity must be one of none, prefer, or require")
		}
		for _, name := range n.Devices {
			if !slices.ContainsFunc(r.Devices, func(d *RequestedDevice) bool { return d.Name == name }) {
				p.addf("numa devices: the task asks for no device %q; name it as in its device block", name)
			}
		}
	}
	validateNetworks(p, r.Networks)
}

func (t *Task) validateLogs(p *ValidationError, tg *TaskGroup) {
	l := t.LogConfig
	if l == nil {
		p.addf("Missing log config")
		return
	}
	if l.Disabled {
		return
	}
	if l.MaxFiles < 1 {
		p.addf("minimum number of files is 1; got %d", l.MaxFiles)
	}
	if l.MaxFileSizeMB < 1 {
		p.addf("minimum file size is 1MB; got %d", l.MaxFileSizeMB)
	}
	if d := tg.EphemeralDisk; d != nil && l.MaxFiles > 0 && l.MaxFileSizeMB > 0 {
		// Their product can be more than an int64 holds.
		if usage := float64(l.MaxFiles) * float64(l.MaxFileSizeMB); usage > float64(d.SizeMB) {
			p.addf("log storage (%.0f MB) must be less than requested disk capacity (%d MB)", usage, d.SizeMB)
		}
	}
}

func (t *Task) validateLifecycle(p *ValidationError) {
	if t.Lifecycle == nil {
		return
	}
	switch t.Lifecycle.Hook {
	case TaskLifecycleHookPrestart, TaskLifecycleHookPoststart, TaskLifecycleHookPoststop:
	case "":
		p.addf("no lifecycle hook provided")
	default:
		p.addf("invalid hook: %v", t.Lifecycle.Hook)
	}
	if t.Leader {
		p.addf("leader task must not have a lifecycle hook")
	}
}

// validatePaths checks that the files that the task names are inside its own
// directory.
func (t *Task) validatePaths(p *ValidationError) {
	if d := t.DispatchPayload; d != nil {
		if d.File == "" {
			p.addf("Dispatch Payload validation failed: file must be set")
		} else if escapes("task/local", d.File) {
			p.addf("Dispatch Payload validation failed: destination escapes allocation directory")
		}
	}
	for i, a := range t.Artifacts {
		if a.GetterSource == "" {
			p.addf("Artifact %d validation failed: source must be specified", i+1)
		}
		switch a.GetterMode {
		case "any", "file", "dir":
		default:
			p.addf("Artifact %d validation failed: invalid artifact mode %q; must be one of: any, file, dir", i+1, a.GetterMode)
		}
		if sum, ok := a.GetterOptions["checksum"]; ok && !strings.Contains(sum, "${") {
			if err := checksum.Check(sum); err != nil {
				p.addf("Artifact %d validation failed: %v", i+1, err)
			}
		}
		if escapes("task", a.RelativeDest) {
			p.addf("Artifact %d validation failed: artifact destination escapes allocation directory", i+1)
		}
	}
	seen := map[string]int{}
	for i, tmpl := range t.Templates {
		t.validateTemplate(p, i+1, tmpl)
		if first, ok := seen[tmpl.DestPath]; ok {
			p.addf("Template %d has same destination as %d", i+1, first)
		} else {
			seen[tmpl.DestPath] = i + 1
		}
	}
}

func (t *Task) validateTemplate(p *ValidationError, n int, tmpl *Template) {
	if tmpl.SourcePath == "" && tmpl.EmbeddedTmpl == "" {
		p.addf("Template %d validation failed: Must specify a source path or have an embedded template", n)
	}
	if tmpl.SourcePath != "" && tmpl.EmbeddedTmpl != "" {
		p.addf("Template %d validation failed: source and data exclude each other: %q would not be read", n, tmpl.SourcePath)
	}
	if tmpl.DestPath == "" {
		p.addf("Template %d validation failed: Must specify a destination for the template", n)
	} else if escapes("task", tmpl.DestPath) {
		p.addf("Template %d validation failed: template destination escapes allocation directory", n)
	}
	switch tmpl.ChangeMode {
	case "noop", "restart":
	case "signal":
		if tmpl.ChangeSignal == "" {
			p.addf("Template %d validation failed: Must specify signal value when change mode is signal", n)
		} else if !isSignal(tmpl.ChangeSignal) {
			p.addf("Template %d validation failed: change_signal: "+unknownSignal, n, tmpl.ChangeSignal)
		}
		if tmpl.Envvars {
			p.addf("Template %d validation failed: cannot use signals with env var templates", n)
		}
	case "script":
		if tmpl.ChangeScript == nil || tmpl.ChangeScript.Command == "" {
			p.addf("Template %d validation failed: must specify change script configuration value when change mode is script", n)
		}
	default:
		p.addf("Template %d validation failed: Invalid change mode given: %q", n, tmpl.ChangeMode)
	}
	if tmpl.Splay < 0 {
		p.addf("Template %d validation failed: Must specify positive splay value", n)
	}
	if w := tmpl.Wait; w != nil && w.Min != nil && w.Max != nil && *w.Min > *w.Max {
		p.addf("Template %d validation failed: wait min must be at most max", n)
	}
	if w := tmpl.Wait; w != nil && (w.Min != nil && *w.Min < 0 || w.Max != nil && *w.Max < 0) {
		p.addf("Template %d validation failed: wait must not be negative", n)
	}
	if s := tmpl.ChangeScript; s != nil && s.Timeout < 0 {
		p.addf("Template %d validation failed: the timeout of the change script must not be negative", n)
	}
	if bits, err := strconv.ParseUint(tmpl.Perms, 8, 12); tmpl.Perms != "" && (err != nil || bits > 0o777) {
		p.addf("Template %d validation failed: Failed to parse %q as octal permissions up to 0777", n, tmpl.Perms)
	}
	if (tmpl.LeftDelim == "") != (tmpl.RightDelim == "") || tmpl.LeftDelim != "" && tmpl.LeftDelim == tmpl.RightDelim {
		p.addf("Template %d validation failed: left and right delimiter must both be set and differ", n)
	}
}

// escapes reports whether rel, relative to dir within an alloc, leaves the alloc's
// directory. Interpolated parts are checked on the node.
func escapes(dir, rel string) bool {
	joined := path.Join("/alloc-root", dir, rel)
	return joined != "/alloc-root" && !strings.HasPrefix(joined, "/alloc-root/")
}

func (t *Task) validateMounts(p *ValidationError, tg *TaskGroup) {
	for i, m := range t.VolumeMounts {
		if m.Volume == "" {
			p.addf("Volume Mount (%d) references empty volume", i)
		} else if _, ok := tg.Volumes[m.Volume]; !ok {
			p.addf("Volume Mount (%d) references undefined volume %s", i, m.Volume)
		}
		if m.Destination == "" {
			p.addf("Volume Mount (%d) has no destination", i)
		} else if escapes("", m.Destination) || path.Join("/", m.Destination) == "/" {
			p.addf("Volume Mount (%d) has the destination %.200q, which is not a folder within the task; use one such as /data", i, m.Destination)
		}
		switch m.PropagationMode {
		case "", "private", "host-to-task", "bidirectional":
		default:
			p.addf("Volume Mount (%d) has an invalid propagation mode: %q", i, m.PropagationMode)
		}
	}
}

func (t *Task) validateActions(p *ValidationError) {
	seen := map[string]bool{}
	for _, a := range t.Actions {
		if a.Name == "" || a.Command == "" {
			p.addf("Action %q needs a name and a command", a.Name)
		}
		if seen[a.Name] {
			p.addf("Action %s defined multiple times", a.Name)
		}
		seen[a.Name] = true
	}
}

func (t *Task) validateCSIPlugin(p *ValidationError) {
	c := t.CSIPluginConfig
	if c == nil {
		return
	}
	switch {
	case c.ID == "":
		p.addf("CSIPluginConfig must have a non-empty PluginID")
	case !IsHostVolumePlugin(c.ID): // volumes name plugins of both types in one way
		p.addf("csi_plugin has the id %.140q: it must be letters, digits, '.', '_' and '-', at most 128 of them", c.ID)
	}
	if !slices.Contains([]string{CSIPluginController, CSIPluginNode, CSIPluginMonolith}, c.Type) {
		p.addf("CSIPluginConfig PluginType must be one of 'node', 'controller', or 'monolith', got: %q", c.Type)
	}
	for _, d := range []struct{ name, path string }{{"mount_dir", c.MountDir}, {"stage_publish_base_dir", c.StagePublishBaseDir}} {
		if !path.IsAbs(d.path) || path.Clean(d.path) == "/" {
			p.addf("csi_plugin has the %s %q: it must be an absolute path of a directory in the task, and not /", d.name, d.path)
		}
	}
	if c.HealthTimeout <= 0 {
		p.addf("csi_plugin has the health_timeout %s: it must be more than 0", c.HealthTimeout)
	}
}
