// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package devicecheck

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
	device "github.com/drover-project/drover/sdk/device/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

var checks = []Check{
	{"info", "info is complete, always the same, and its schema is sound", nil, checkInfo},
	{"config-again", "the same config may be set again at any time", nil, checkConfigAgain},
	{"fingerprint", "the first fingerprint comes at once, others when something changes, and the stream ends with its context and not before", nil, checkFingerprint},
	{"groups", "groups and instances are named once, their attributes have known units, and a NUMA node is a number that a machine can have", nil, checkGroups},
	{"reserve", "devices can be reserved again with the same answer", nil, checkReserve},
	{"unknown-device", "an unknown device is refused as not found", nil, checkUnknown},
	{"reserve-for-task", "a reservation for a task gives at least what one without it does, and again the same", needs(device.FeatureReserveForTask), checkReserveForTask},
	{"release", "devices can be released again, by another process, and though nothing was reserved, and be reserved for another task afterwards", needs(device.FeatureRelease), checkRelease},
	{"stats", "stats come at once, name what the fingerprint names, and end with their context", nil, checkStats},
	{"fresh-process", "another process finds the same devices after the first was killed", nil, checkDeath},
}

func checkInfo(b *bench) {
	info := b.d.Info()
	conformance.CheckInfo(b.t, info.Name, info.ConfigSchema, info, b.d.Info())
	if err := info.TaskConfigSchema.Check(); err != nil {
		b.t.Errorf("the schema for the config of a device in a job: %v", err)
	}
	if task := info.TaskConfigSchema; len(task.Attributes) > 0 && !device.Has(b.d, device.FeatureReserveForTask) {
		b.t.Errorf("there is a schema for the config of a device in a job, and no ReserveForTask that gets it")
	}
}

func checkConfigAgain(b *bench) {
	if err := b.d.SetConfig(b.ctx, b.config); err != nil {
		b.t.Errorf("SetConfig a second time: %v", err)
	}
}

func checkFingerprint(b *bench) {
	conformance.CheckFingerprints(b.t, b.d.Fingerprint, b.subject.Foreign)
}

func checkGroups(b *bench) {
	groups, ids := map[string]bool{}, map[string]bool{}
	for _, g := range b.groups() {
		name := g.Vendor + "/" + g.Type + "/" + g.Name
		if g.Vendor == "" || g.Type == "" || g.Name == "" || strings.Contains(g.Vendor+g.Type, "/") {
			b.t.Errorf("group %q: vendor, type and name must be set, the first two without a slash", name)
		}
		if groups[name] {
			b.t.Errorf("group %q is there twice", name)
		}
		groups[name] = true
		if len(g.Instances) == 0 {
			b.t.Errorf("group %q has no instance", name)
		}
		for _, i := range g.Instances {
			if i.ID == "" || ids[i.ID] {
				b.t.Errorf("group %q: the id %q is empty or there twice", name, i.ID)
			}
			if !i.Healthy && i.HealthDescription == "" {
				b.t.Errorf("device %q is not healthy and does not say why", i.ID)
			}
			for key, a := range i.Attributes {
				checkAttribute(b, name+", device "+i.ID+": "+key, a)
			}
			if i.NUMANode != nil && (*i.NUMANode < 0 || *i.NUMANode >= maxNUMANodes) {
				b.t.Errorf("device %q: NUMA node %d does not exist; leave out what is not known", i.ID, *i.NUMANode)
			}
			ids[i.ID] = true
		}
		for key, a := range g.Attributes {
			checkAttribute(b, name+": "+key, a)
		}
	}
}

// maxNUMANodes is the most NUMA nodes that Linux supports (CONFIG_NODES_SHIFT is at most 10).
const maxNUMANodes = 1024

func checkAttribute(b *bench, name string, a device.Attribute) {
	set := 0
	for _, v := range []bool{a.Int != nil, a.Float != nil, a.Text != nil, a.Bool != nil} {
		if v {
			set++
		}
	}
	if set != 1 {
		b.t.Errorf("attribute %s has %d values, want one", name, set)
	}
	if !slices.Contains(device.Units, a.Unit) || a.Unit != "" && a.Int == nil && a.Float == nil {
		b.t.Errorf("attribute %s: the unit %q is unknown or not that of a number", name, a.Unit)
	}
}

// healthy returns the ids of the healthy instances of one group.
func healthy(b *bench) []string {
	for _, g := range b.groups() {
		var ids []string
		for _, i := range g.Instances {
			if i.Healthy {
				ids = append(ids, i.ID)
			}
		}
		if len(ids) > 0 {
			return ids
		}
	}
	b.t.Skipf("no healthy device on this machine")
	return nil
}

func checkReserve(b *bench) {
	ids := healthy(b)
	first, err := b.d.Reserve(b.ctx, ids)
	if err != nil {
		b.t.Fatalf("Reserve(%q): %v", ids, err)
	}
	if len(first.Env)+len(first.Mounts)+len(first.Nodes) == 0 {
		b.t.Errorf("the reservation gives the task nothing: no variable, mount or node")
	}
	for _, m := range first.Mounts {
		if !filepath.IsAbs(m.HostPath) || !filepath.IsAbs(m.TaskPath) {
			b.t.Errorf("mount %+v: its paths must be absolute", m)
		}
	}
	for _, n := range first.Nodes {
		if !filepath.IsAbs(n.HostPath) || !filepath.IsAbs(n.TaskPath) || n.Permissions == "" || strings.Trim(n.Permissions, "rwm") != "" {
			b.t.Errorf("device node %+v: its paths must be absolute and its permissions of rwm", n)
		}
	}
	again, err := b.d.Reserve(b.ctx, ids)
	if err != nil {
		b.t.Fatalf("Reserve(%q) again: %v", ids, err)
	}
	if !reflect.DeepEqual(first.Env, again.Env) || len(first.Mounts) != len(again.Mounts) || len(first.Nodes) != len(again.Nodes) {
		b.t.Errorf("the second answer differs: %+v, then %+v", first, again)
	}
}

func checkUnknown(b *bench) {
	for _, ids := range [][]string{{"no such device"}, append(slices.Clone(healthy(b)), "no such device")} {
		if _, err := b.d.Reserve(b.ctx, ids); err == nil || !b.subject.Foreign && !errdefs.IsNotFound(err) {
			b.t.Errorf("Reserve(%q): %v, want NotFound", ids, err)
		}
	}
}

// needs returns the condition of a check that applies only to plugins with an optional
// ability.
func needs(f device.Feature) func(device.Device) bool {
	return func(d device.Device) bool { return device.Has(d, f) }
}

// holder returns the n-th of some tasks.
func holder(n int) device.Holder {
	return device.Holder{
		Namespace: "default", JobID: "check", TaskGroup: "check", Task: "check", AllocID: fmt.Sprintf("4f0c3a1e-0000-4000-8000-%012d", n),
	}
}

// request returns a reservation of all healthy devices of a group, as the host makes it for a
// job without a config for them.
func request(b *bench, n int) device.Request {
	accepts := b.d.Info().TaskConfigSchema
	applied, err := accepts.Apply(nil)
	if err != nil {
		b.t.Skipf("a device needs a config in the job: %v", err)
	}
	body, err := json.Marshal(applied)
	if err != nil {
		b.t.Fatalf("encode the config: %v", err)
	}
	return device.Request{Holder: holder(n), IDs: healthy(b), Config: body}
}

func checkReserveForTask(b *bench) {
	r := request(b, 1)
	d := b.d.(device.TaskReserver)
	plain, err := b.d.Reserve(b.ctx, r.IDs)
	if err != nil {
		b.t.Fatalf("Reserve(%q): %v", r.IDs, err)
	}
	first, err := d.ReserveForTask(b.ctx, r)
	if err != nil {
		b.t.Fatalf("ReserveForTask(%+v): %v", r, err)
	}
	if len(first.Env) < len(plain.Env) || len(first.Mounts) < len(plain.Mounts) || len(first.Nodes) < len(plain.Nodes) {
		b.t.Errorf("with the task the answer is %+v, less than %+v without it", first, plain)
	}
	again, err := d.ReserveForTask(b.ctx, r)
	if err != nil {
		b.t.Fatalf("ReserveForTask(%+v) again: %v", r, err)
	}
	if !reflect.DeepEqual(first.Env, again.Env) || len(first.Mounts) != len(again.Mounts) || len(first.Nodes) != len(again.Nodes) {
		b.t.Errorf("the second answer differs: %+v, then %+v", first, again)
	}
	r.IDs = append(slices.Clone(r.IDs), "no such device")
	if _, err := d.ReserveForTask(b.ctx, r); !errdefs.IsNotFound(err) {
		b.t.Errorf("ReserveForTask(%q): %v, want NotFound", r.IDs, err)
	}
	r.IDs = r.IDs[:len(r.IDs)-1]
	release(b, r.Holder, r.IDs)
}

// release releases devices, if the plugin is a Releaser.
func release(b *bench, h device.Holder, ids []string) {
	if !device.Has(b.d, device.FeatureRelease) {
		return
	}
	if err := b.d.(device.Releaser).Release(b.ctx, h, ids); err != nil {
		b.t.Errorf("Release(%+v, %q): %v", h, ids, err)
	}
}

func checkRelease(b *bench) {
	ids := healthy(b)
	release(b, holder(1), ids) // release without a reservation
	release(b, holder(1), []string{"no such device"})
	take := func(n int) {
		var err error
		if device.Has(b.d, device.FeatureReserveForTask) {
			_, err = b.d.(device.TaskReserver).ReserveForTask(b.ctx, request(b, n))
		} else {
			_, err = b.d.Reserve(b.ctx, ids)
		}
		if err != nil {
			b.t.Fatalf("the devices %q cannot be reserved for another task after their release: %v", ids, err)
		}
	}
	take(1)
	b.die()
	b.open()
	release(b, holder(1), ids) // another process has told the plugin so
	release(b, holder(1), ids)
	take(2)
	release(b, holder(2), ids)
}

func checkStats(b *bench) {
	known := map[string]bool{}
	for _, g := range b.groups() {
		for _, i := range g.Instances {
			known[g.Vendor+"/"+g.Type+"/"+g.Name+"/"+i.ID] = true
		}
	}
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	stats, err := b.d.Stats(ctx, time.Hour)
	if errdefs.IsUnimplemented(err) {
		b.t.Skipf("the plugin says that its devices cannot be measured")
	}
	if err != nil {
		b.t.Fatalf("Stats: %v", err)
	}
	sample, ok := conformance.Receive(b.t, stats, "the first sample")
	if !ok || len(sample) == 0 {
		b.t.Fatalf("the first sample is empty")
	}
	for _, g := range sample {
		for id, s := range g.Instances {
			if !known[g.Vendor+"/"+g.Type+"/"+g.Name+"/"+id] {
				b.t.Errorf("a sample of %s/%s/%s %q, which the fingerprint does not have", g.Vendor, g.Type, g.Name, id)
			}
			if s.Time.IsZero() || time.Since(s.Time).Abs() > time.Hour {
				b.t.Errorf("device %q: the sample's time is %s", id, s.Time)
			}
			if _, ok := s.Values[s.Summary]; s.Summary != "" && !ok {
				b.t.Errorf("device %q: the summary %q names no value", id, s.Summary)
			}
		}
	}
	cancel()
	conformance.Ended(b.t, stats, "the stats")
}

func checkDeath(b *bench) {
	before := b.groups()
	b.die()
	b.open()
	after := b.groups()
	if !reflect.DeepEqual(names(before), names(after)) {
		b.t.Errorf("one process found %q and the next %q", names(before), names(after))
	}
}

func names(groups []device.Group) []string {
	var out []string
	for _, g := range groups {
		for _, i := range g.Instances {
			out = append(out, g.Vendor+"/"+g.Type+"/"+g.Name+"/"+i.ID)
		}
	}
	slices.Sort(out)
	return out
}
