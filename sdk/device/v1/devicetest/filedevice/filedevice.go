// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package filedevice is a complete example of a device plugin: every file of a
// directory is a device, its size is the device's capacity, and a file named
// NAME.broken makes the device NAME unhealthy. The text in a file NAME.link is an attribute
// of the device alone, and the number in NAME.numa its NUMA node. While a task has a device, a file of the
// device's name in the folder "held" of the plugin's state, or of the directory if it has
// no state, contains the task's name. Tests of hosts use it too.
package filedevice

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	device "github.com/drover-project/drover/sdk/device/v1"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
	"github.com/drover-project/drover/sdk/schema"
)

// Device offers the files of a directory as devices.
type Device struct {
	name string

	mu  sync.Mutex
	dir string
}

var (
	_ device.TaskReserver = (*Device)(nil)
	_ device.Releaser     = (*Device)(nil)
)

// New returns a plugin with the given name.
func New(name string) *Device { return &Device{name: name} }

// poll is the interval at which the directory is scanned.
const poll = 50 * time.Millisecond

// Info implements device.Device.
func (d *Device) Info() device.Info {
	return device.Info{Name: d.name, ConfigSchema: schema.Schema{Attributes: []schema.Attribute{
		{Name: "dir", Type: schema.String, Required: true, Description: "the directory whose files are devices"},
	}}, TaskConfigSchema: schema.Schema{Attributes: []schema.Attribute{
		{Name: "label", Type: schema.String, Description: "what the task finds in FILE_LABEL"},
	}}}
}

// SetConfig implements device.Device.
func (d *Device) SetConfig(_ context.Context, config []byte) error {
	var c struct {
		Dir string `json:"dir"`
	}
	if err := schema.Unmarshal(config, &c); err != nil {
		return err
	}
	if !filepath.IsAbs(c.Dir) {
		return errdefs.InvalidArgumentf("dir %q is not an absolute path", c.Dir)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dir = c.Dir
	return nil
}

func (d *Device) directory() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dir
}

// scan returns the devices, grouped by size.
func (d *Device) scan() device.Fingerprint {
	dir := d.directory()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return device.Fingerprint{Problem: fmt.Sprintf("read the directory: %v", err)}
	}
	about, bySize := map[string]bool{}, map[int64]*device.Group{}
	for _, e := range entries {
		about[e.Name()] = slices.Contains([]string{".broken", ".link", ".numa"}, filepath.Ext(e.Name()))
	}
	var sizes []int64
	for _, e := range entries {
		st, err := e.Info()
		if err != nil || !st.Mode().IsRegular() || about[e.Name()] {
			continue
		}
		g := bySize[st.Size()]
		if g == nil {
			g = &device.Group{
				Vendor: "drover", Type: "file", Name: fmt.Sprintf("file-%d", st.Size()),
				Attributes: map[string]device.Attribute{"size": device.Int(st.Size(), "B")},
			}
			bySize[st.Size()], sizes = g, append(sizes, st.Size())
		}
		i := device.Instance{ID: e.Name(), Healthy: !about[e.Name()+".broken"]}
		if link, err := os.ReadFile(filepath.Join(dir, i.ID+".link")); err == nil {
			i.Attributes = map[string]device.Attribute{"link": device.Text(strings.TrimSpace(string(link)))}
		}
		if text, err := os.ReadFile(filepath.Join(dir, i.ID+".numa")); err == nil {
			if node, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
				i.NUMANode = device.NUMA(node)
			}
		}
		if !i.Healthy {
			i.HealthDescription = "there is a file " + e.Name() + ".broken"
		}
		g.Instances = append(g.Instances, i)
	}
	slices.Sort(sizes)
	out := device.Fingerprint{}
	for _, s := range sizes {
		out.Groups = append(out.Groups, *bySize[s])
	}
	if len(sizes) == 0 {
		out.Problem = "no file in " + dir
	}
	return out
}

// Fingerprint implements device.Device.
func (d *Device) Fingerprint(ctx context.Context) (<-chan device.Fingerprint, error) {
	out := make(chan device.Fingerprint)
	go func() {
		defer close(out)
		var last *device.Fingerprint
		for {
			if f := d.scan(); last == nil || !reflect.DeepEqual(f, *last) {
				select {
				case out <- f:
					last = &f
				case <-ctx.Done():
					return
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(poll):
			}
		}
	}()
	return out, nil
}

// Reserve implements device.Device.
func (d *Device) Reserve(_ context.Context, ids []string) (*device.Reservation, error) {
	known := map[string]device.Instance{}
	for _, g := range d.scan().Groups {
		for _, i := range g.Instances {
			known[i.ID] = i
		}
	}
	out := &device.Reservation{Env: map[string]string{"FILE_DEVICES": strings.Join(ids, ",")}}
	for _, id := range ids {
		switch i, ok := known[id]; {
		case !ok:
			return nil, errdefs.NotFoundf("there is no device %q", id)
		case !i.Healthy:
			return nil, errdefs.FailedPreconditionf("device %q cannot be used: %s", id, i.HealthDescription)
		}
		out.Mounts = append(out.Mounts, device.Mount{HostPath: filepath.Join(d.directory(), id), TaskPath: "/devices/" + id})
	}
	return out, nil
}

// held returns the path of the file that says who has a device. A plugin process that an
// agent has started works in its state folder, the only one to which it may write.
func (d *Device) held(id string) string {
	if os.Getenv(plugin.StateDirEnv) != "" {
		return filepath.Join("held", id)
	}
	return filepath.Join(d.directory(), "held", id)
}

// ReserveForTask implements device.TaskReserver.
func (d *Device) ReserveForTask(ctx context.Context, r device.Request) (*device.Reservation, error) {
	var c struct {
		Label string `json:"label"`
	}
	if err := schema.Unmarshal(r.Config, &c); err != nil {
		return nil, err
	}
	out, err := d.Reserve(ctx, r.IDs)
	if err != nil {
		return nil, err
	}
	if c.Label != "" {
		out.Env["FILE_LABEL"] = c.Label
	}
	if err := os.MkdirAll(d.held(""), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of holders: %w", err)
	}
	for _, id := range r.IDs {
		if err := os.WriteFile(d.held(id), []byte(nameOf(r.Holder)), 0o600); err != nil {
			return nil, fmt.Errorf("record the holder: %w", err)
		}
	}
	return out, nil
}

// Release implements device.Releaser.
func (d *Device) Release(_ context.Context, h device.Holder, ids []string) error {
	for _, id := range ids {
		if filepath.Base(id) != id {
			continue // there is no such device
		}
		who, err := os.ReadFile(d.held(id))
		if err != nil || string(who) != nameOf(h) {
			continue
		}
		if err := os.Remove(d.held(id)); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("release the device: %w", err)
		}
	}
	return nil
}

func nameOf(h device.Holder) string { return h.AllocID + "/" + h.Task }

// Stats implements device.Device.
func (d *Device) Stats(ctx context.Context, interval time.Duration) (<-chan []device.GroupStats, error) {
	return device.Every(ctx, interval, d.measure)
}

func (d *Device) measure(context.Context) []device.GroupStats {
	var out []device.GroupStats
	for _, g := range d.scan().Groups {
		s := device.GroupStats{Vendor: g.Vendor, Type: g.Type, Name: g.Name, Instances: map[string]device.Stats{}}
		for _, i := range g.Instances {
			s.Instances[i.ID] = device.Stats{
				Summary: "Size", Time: time.Now(),
				Values: map[string]device.Value{"Size": {Int: g.Attributes["size"].Int, Unit: "B", Description: "size of the file"}},
			}
		}
		out = append(out, s)
	}
	return out
}
