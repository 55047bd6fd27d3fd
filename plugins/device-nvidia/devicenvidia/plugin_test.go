// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package devicenvidia_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/plugins/device-nvidia/devicenvidia"
	"github.com/drover-project/drover/plugins/device-nvidia/nvml/nvmltest"
	device "github.com/drover-project/drover/sdk/device/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	gpu0 = "GPU-00000000-aaaa-bbbb-cccc-ddddeeeeffff"
	gpu1 = "GPU-00000001-aaaa-bbbb-cccc-ddddeeeeffff"
	mig0 = "MIG-00000000-aaaa-bbbb-cccc-ddddeeeeffff"
	mig1 = "MIG-00000001-aaaa-bbbb-cccc-ddddeeeeffff"
)

// answer is the time limit of library calls in these tests.
const answer = time.Second

// rig is the plugin with a library whose GPUs the test can change.
type rig struct {
	*devicenvidia.Device
	t      *testing.T
	lib    string
	prints <-chan device.Fingerprint
}

func start(t *testing.T, change map[string]any) *rig {
	t.Helper()
	r := &rig{Device: devicenvidia.New(hclog.NewNullLogger()), t: t, lib: nvmltest.Build(t)}
	r.SetLimit(answer)
	r.configure(change)
	ctx, cancel := context.WithCancel(context.Background())
	var err error
	if r.prints, err = r.Fingerprint(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		for range r.prints { // the library's directory must exist until the scan has ended
		}
	})
	return r
}

func (r *rig) configure(change map[string]any) {
	r.t.Helper()
	block := map[string]any{"library": r.lib, "fingerprint_period": "100ms"}
	for k, v := range change {
		block[k] = v
	}
	accepts := r.Info().ConfigSchema
	full, err := accepts.Apply(block)
	if err != nil {
		r.t.Fatal(err)
	}
	body, err := json.Marshal(full)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.SetConfig(r.t.Context(), body); err != nil {
		r.t.Fatal(err)
	}
}

// until returns the first fingerprint for which ok returns true.
func (r *rig) until(what string, ok func(device.Fingerprint) bool) device.Fingerprint {
	r.t.Helper()
	var last device.Fingerprint
	late := time.After(time.Minute)
	for {
		select {
		case last = <-r.prints:
			if ok(last) {
				return last
			}
		case <-late:
			r.t.Fatalf("%s: the last fingerprint was %+v", what, last)
		}
	}
}

func instance(f device.Fingerprint, id string) *device.Instance {
	for _, g := range f.Groups {
		for _, i := range g.Instances {
			if i.ID == id {
				return &i
			}
		}
	}
	return nil
}

func any3(f device.Fingerprint) bool { return len(f.Groups) > 0 }

func TestGPUsAndMIGInstancesAreGroupsOfTheirNames(t *testing.T) {
	f := start(t, nil).until("found", any3)
	if len(f.Groups) != 2 || f.Problem != "" {
		t.Fatalf("want the two T4 and the instances of the A100, got %+v", f)
	}
	whole, parts := f.Groups[0], f.Groups[1]
	if whole.Vendor != "nvidia" || whole.Type != "gpu" || whole.Name != "Tesla T4" || parts.Name != "NVIDIA A100-SXM4-40GB MIG 3g.20gb" {
		t.Errorf("the groups are called %+v and %+v", whole, parts)
	}
	var ids []string
	for _, g := range f.Groups {
		for _, i := range g.Instances {
			if !i.Healthy {
				t.Errorf("%s is not healthy: %s", i.ID, i.HealthDescription)
			}
			ids = append(ids, i.ID)
		}
	}
	if !slices.Equal(ids, []string{gpu0, gpu1, mig0, mig1}) {
		t.Errorf("the devices are %q; a divided GPU must not be among them", ids)
	}
	if whole.Instances[1].PCIBusID != "00000000:3C:00.0" {
		t.Errorf("the bus of GPU 1 is %q", whole.Instances[1].PCIBusID)
	}
	want := map[string]device.Attribute{
		"memory": device.Int(15*1024, "MiB"), "bar1": device.Int(256, "MiB"), "cores_clock": device.Int(1590, "MHz"),
		"memory_clock": device.Int(5001, "MHz"), "pci_bandwidth": device.Int(15760, "MB/s"), "driver_version": device.Text("550.90.07"),
		"display_state": device.Text("Disabled"), "persistence_mode": device.Text("Enabled"), "compute_capability": device.Text("7.5"),
		"cuda_driver_version": device.Float(12.4, ""), "mig": device.Bool(false), "shares": device.Int(1, ""),
		// no power attribute, because the two GPUs have different limits
	}
	if !reflect.DeepEqual(whole.Attributes, want) {
		t.Errorf("the T4's attributes are %+v\nwant %+v", whole.Attributes, want)
	}
	if got := parts.Attributes; *got["memory"].Int != 20*1024 || !*got["mig"].Bool || *got["power"].Int != 70 {
		t.Errorf("an instance has its own memory and its GPU's power, got %+v", got)
	}
}

func TestIgnoredAndTurnedOff(t *testing.T) {
	r := start(t, map[string]any{"ignored_gpu_ids": []any{gpu0, mig1}})
	f := r.until("found", any3)
	if instance(f, gpu0) != nil || instance(f, mig1) != nil || instance(f, gpu1) == nil {
		t.Errorf("ignored devices are offered: %+v", f)
	}
	if _, err := r.Reserve(t.Context(), []string{gpu0}); !errdefs.IsNotFound(err) {
		t.Errorf("an ignored GPU can be reserved: %v", err)
	}
	r.configure(map[string]any{"enabled": false})
	f = r.until("turned off", func(f device.Fingerprint) bool { return len(f.Groups) == 0 })
	if !strings.Contains(f.Problem, "enabled = false") {
		t.Errorf("the problem is %q", f.Problem)
	}
}

func TestAFailedGPUIsUnhealthyAndTheOthersAreNot(t *testing.T) {
	for what, c := range map[string]struct{ file, content, says string }{
		"it is lost":       {"lost-0", "", "GPU is lost"},
		"a row is broken":  {"rows-0", "", "could not be remapped"},
		"the driver says":  {"xid-0", "79", "Xid 79"},
		"a divided one is": {"xid-2", "48", "Xid 48"},
	} {
		t.Run(what, func(t *testing.T) {
			r := start(t, nil)
			r.until("found", any3)
			bad := gpu0
			if c.file == "xid-2" {
				bad = mig1
			}
			nvmltest.Say(t, r.lib, c.file, c.content)
			f := r.until("unhealthy", func(f device.Fingerprint) bool { i := instance(f, bad); return i != nil && !i.Healthy })
			if why := instance(f, bad).HealthDescription; !strings.Contains(why, c.says) {
				t.Errorf("it says %q", why)
			}
			if i := instance(f, gpu1); i == nil || !i.Healthy {
				t.Errorf("the other GPU is %+v", i)
			}
			if _, err := r.Reserve(t.Context(), []string{gpu1, bad}); !errdefs.IsFailedPrecondition(err) {
				t.Errorf("it can be reserved: %v", err)
			}
			if c.file == "lost-0" || c.file == "rows-0" {
				nvmltest.Unsay(t, r.lib, c.file)
				r.until("healthy again", func(f device.Fingerprint) bool { i := instance(f, gpu0); return i != nil && i.Healthy })
			}
		})
	}
}

func TestAProgramThatFailsIsNoFaultOfTheGPU(t *testing.T) {
	r := start(t, nil)
	r.until("found", any3)
	nvmltest.Say(t, r.lib, "xid-0", "31")
	// Errors are reported in order: once the second one is known, the first one was
	// handled too.
	for read := false; !read; { // the library removes the file when it has read it
		_, err := os.Stat(filepath.Join(filepath.Dir(r.lib), "xid-0"))
		read = os.IsNotExist(err)
	}
	nvmltest.Say(t, r.lib, "xid-1", "79")
	f := r.until("the fault", func(f device.Fingerprint) bool { return !instance(f, gpu1).Healthy })
	if !instance(f, gpu0).Healthy {
		t.Errorf("Xid 31 made GPU 0 unhealthy: %+v", f)
	}
}

func TestALibraryThatHangsIsNotWaitedFor(t *testing.T) {
	r := start(t, nil)
	r.until("found", any3)
	nvmltest.Say(t, r.lib, "hang", "")
	f := r.until("unhealthy", func(f device.Fingerprint) bool { return f.Problem != "" })
	for _, id := range []string{gpu0, gpu1, mig0, mig1} {
		if i := instance(f, id); i == nil || i.Healthy || !strings.Contains(i.HealthDescription, "has not answered since") {
			t.Errorf("%s is %+v while the library hangs", id, i)
		}
	}
	nvmltest.Unsay(t, r.lib, "hang")
	r.until("healthy again", func(f device.Fingerprint) bool {
		i := instance(f, gpu0)
		return f.Problem == "" && i != nil && i.Healthy
	})
}

func TestACallerThatGivesUpDoesNotMakeTheLibraryCountAsHung(t *testing.T) {
	r := start(t, map[string]any{"fingerprint_period": "1h"}) // which asks, too
	r.until("found", any3)
	nvmltest.Say(t, r.lib, "hang", "")
	short, giveUp := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer giveUp()
	first, err := r.Stats(short, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for range first {
		t.Error("the library answered though it hangs")
	}
	ctx, end := context.WithCancel(t.Context())
	next, err := r.Stats(ctx, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		end()
		for range next {
		}
	}()
	nvmltest.Unsay(t, r.lib, "hang")
	select {
	case <-next:
	case <-time.After(time.Minute):
		t.Error("who asked after one that gave up was told that the library hangs")
	}
}

func TestTheDriverMayComeLater(t *testing.T) {
	lib := nvmltest.Build(t)
	nvmltest.Say(t, lib, "no-driver", "")
	r := &rig{Device: devicenvidia.New(hclog.NewNullLogger()), t: t, lib: lib}
	r.configure(nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var err error
	if r.prints, err = r.Fingerprint(ctx); err != nil {
		t.Fatal(err)
	}
	r.until("no driver", func(f device.Fingerprint) bool { return strings.Contains(f.Problem, "Driver Not Loaded") })
	nvmltest.Unsay(t, lib, "no-driver")
	r.until("found", any3)
}

// machine creates the files of a machine with the GPUs of the fake library.
func machine(t *testing.T, r *rig, files map[string]string) {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.SetRoot(root)
}

func TestAReservationGivesTheTaskItsGPUsAndNoOthers(t *testing.T) {
	r := start(t, nil)
	r.until("found", any3)
	machine(t, r, map[string]string{
		"dev/nvidia0": "", "dev/nvidia1": "", "dev/nvidia2": "", "dev/nvidiactl": "", "dev/nvidia-uvm": "",
		"dev/nvidia-caps/nvidia-cap12": "", "dev/nvidia-caps/nvidia-cap13": "", "dev/nvidia-caps/nvidia-cap21": "",
		"proc/driver/nvidia/capabilities/gpu2/mig/gi1/access":     "DeviceFileMinor: 12\nDeviceFileMode: 292\n",
		"proc/driver/nvidia/capabilities/gpu2/mig/gi1/ci0/access": "DeviceFileMinor: 13\nDeviceFileMode: 292\n",
		"proc/driver/nvidia/capabilities/gpu2/mig/gi2/access":     "DeviceFileMinor: 21\nDeviceFileMode: 292\n",
		"etc/cdi/nvidia.yaml": "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: \"0\"\n- name: 2:0\n- name: all\n",
		"etc/cdi/other.json":  `{"cdiVersion": "0.5.0", "kind": "vendor.com/gpu", "devices": [{"name": "1"}]}`,
		"etc/cdi/broken.yaml": "kind: [",
	})
	for _, c := range []struct {
		ids, nodes, cdi []string
	}{
		{[]string{gpu0}, []string{"/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"}, []string{"nvidia.com/gpu=0"}},
		{[]string{gpu0, gpu1}, []string{"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm"}, nil},
		{[]string{mig0}, []string{"/dev/nvidia2", "/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13", "/dev/nvidiactl", "/dev/nvidia-uvm"}, []string{"nvidia.com/gpu=2:0"}},
	} {
		got, err := r.Reserve(t.Context(), c.ids)
		if err != nil {
			t.Fatal(err)
		}
		if got.Env["NVIDIA_VISIBLE_DEVICES"] != strings.Join(c.ids, ",") {
			t.Errorf("%q: the variables are %q", c.ids, got.Env)
		}
		var nodes []string
		for _, n := range got.Nodes {
			nodes = append(nodes, n.HostPath)
			if n.TaskPath != n.HostPath || n.Permissions != "rw" {
				t.Errorf("node %+v", n)
			}
		}
		if !slices.Equal(nodes, c.nodes) || !slices.Equal(got.CDIDevices, c.cdi) {
			t.Errorf("%q: nodes %q and names %q, want %q and %q", c.ids, nodes, got.CDIDevices, c.nodes, c.cdi)
		}
	}
	r.configure(map[string]any{"cdi": false})
	if got, err := r.Reserve(t.Context(), []string{gpu0}); err != nil || got.CDIDevices != nil {
		t.Errorf("cdi = false: %+v, %v", got, err)
	}
}

func TestSharesOfAGPUAreInstancesAndTheTaskSeesTheGPU(t *testing.T) {
	r := start(t, map[string]any{"shares": 2})
	f := r.until("found", any3)
	var ids []string
	for _, i := range f.Groups[0].Instances {
		ids = append(ids, i.ID)
	}
	// The first shares of both come first: two tasks get two GPUs.
	if want := []string{gpu0 + "::0", gpu1 + "::0", gpu0 + "::1", gpu1 + "::1"}; !slices.Equal(ids, want) || *f.Groups[0].Attributes["shares"].Int != 2 {
		t.Errorf("offered are %q with %+v", ids, f.Groups[0].Attributes["shares"])
	}
	for _, c := range []struct {
		ids     []string
		visible string
	}{
		{[]string{gpu0 + "::1"}, gpu0},
		{[]string{gpu0 + "::1", gpu1 + "::0"}, gpu0 + "," + gpu1},
		{[]string{gpu0 + "::0", gpu0 + "::1"}, gpu0},
		{[]string{mig0 + "::1"}, mig0},
	} {
		got, err := r.Reserve(t.Context(), c.ids)
		if err != nil || got.Env["NVIDIA_VISIBLE_DEVICES"] != c.visible {
			t.Errorf("%q: %+v, %v, want %s", c.ids, got, err, c.visible)
		}
	}
	for _, id := range []string{gpu0, gpu0 + "::2", gpu0 + "::01", gpu0 + "::", gpu0 + "::-1"} {
		if _, err := r.Reserve(t.Context(), []string{id}); !errdefs.IsNotFound(err) {
			t.Errorf("%s: %v, want NotFound", id, err)
		}
	}
	samples, err := r.Stats(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if got := (<-samples)[0].Instances; len(got) != 4 || len(got[gpu1+"::1"].Values) == 0 {
		t.Errorf("measured were %+v", got)
	}
	r.configure(map[string]any{"shares": 1})
	r.until("whole again", func(f device.Fingerprint) bool { return instance(f, gpu0) != nil })
	if _, err := r.Reserve(t.Context(), []string{gpu0 + "::0"}); !errdefs.IsNotFound(err) {
		t.Errorf("a share of a GPU that is whole: %v, want NotFound", err)
	}
}

func TestGPUsAreMeasured(t *testing.T) {
	r := start(t, nil)
	r.until("found", any3)
	samples, err := r.Stats(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	groups := <-samples
	if len(groups) != 2 || len(groups[0].Instances) != 2 || len(groups[1].Instances) != 2 {
		t.Fatalf("measured were %+v", groups)
	}
	one := groups[0].Instances[gpu0]
	for name, want := range map[string]struct {
		v    int64
		of   float64
		unit string
	}{
		"Memory state": {2048, 15 * 1024, "MiB"}, "BAR1 buffer state": {16, 256, "MiB"}, "Power usage": {26, 70, "W"},
		"Temperature": {44, 0, "C"}, "GPU utilization": {41, 0, "%"}, "Memory utilization": {7, 0, "%"},
		"Encoder utilization": {3, 0, "%"}, "ECC L2 errors": {1, 0, "#"}, "ECC memory errors": {2, 0, "#"},
	} {
		got, ok := one.Values[name]
		if !ok || *got.Int != want.v || got.Unit != want.unit || (want.of != 0) != (got.Of != nil) || got.Of != nil && *got.Of != want.of {
			t.Errorf("%s is %+v, want %+v", name, got, want)
		}
	}
	if _, there := one.Values["Decoder utilization"]; there {
		t.Error("a value that this driver cannot give is there")
	}
	if one.Summary != "Memory state" || one.Time.IsZero() {
		t.Errorf("the sample is %+v", one)
	}
	if part := groups[1].Instances[mig0]; len(part.Values) != 1 || *part.Values["Memory state"].Of != 20*1024 {
		t.Errorf("an instance's values are %+v", part.Values)
	}
}
