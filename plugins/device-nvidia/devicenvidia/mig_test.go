// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package devicenvidia_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plugins/device-nvidia/devicenvidia"
	"github.com/drover-project/drover/plugins/device-nvidia/nvml/nvmltest"
	device "github.com/drover-project/drover/sdk/device/v1"
	"github.com/drover-project/drover/sdk/device/v1/devicetest"
	"github.com/drover-project/drover/sdk/errdefs"
)

const gpu2 = "GPU-00000002-aaaa-bbbb-cccc-ddddeeeeffff"

// dividing starts the plugin on a machine whose GPU 2 has MIG mode on and no instance.
func dividing(t *testing.T, profiles ...any) *rig {
	t.Helper()
	r := start(t, map[string]any{"enabled": false})
	nvmltest.Say(t, r.lib, "on-demand", "")
	r.configure(map[string]any{"mig_profiles": profiles})
	return r
}

// made returns the files of the GPU instances that exist.
func (r *rig) made() []string {
	out, err := filepath.Glob(filepath.Join(filepath.Dir(r.lib), "[gc]i-*"))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range out {
		out[i] = filepath.Base(out[i])
	}
	return out
}

func TestMIGInstancesAreMadeForATaskAndGoWithIt(t *testing.T) {
	r := dividing(t, "1g.5gb", "3g.20gb", "1g.5gb")
	f := r.until("the offers are there", func(f device.Fingerprint) bool { return instance(f, gpu2+":3g.20gb:0") != nil })
	for _, id := range []string{gpu2 + ":1g.5gb:4", gpu2 + ":1g.5gb:5"} { // what the large one leaves
		if i := instance(f, id); i == nil || !i.Healthy {
			t.Fatalf("%s is %+v of %+v", id, i, f)
		}
	}
	if got := r.made(); len(got) != 0 {
		t.Fatalf("before a task came there was %q", got)
	}
	ids := []string{gpu2 + ":1g.5gb:5"}
	first, err := r.Reserve(t.Context(), ids)
	if err != nil || !strings.HasPrefix(first.Env["NVIDIA_VISIBLE_DEVICES"], "MIG-") {
		t.Fatalf("reserved %+v, %v", first, err)
	}
	if got := r.made(); !slices.Equal(got, []string{"ci-0", "gi-0"}) {
		t.Fatalf("there is %q", got)
	}
	again, err := r.Reserve(t.Context(), ids)
	if err != nil || again.Env["NVIDIA_VISIBLE_DEVICES"] != first.Env["NVIDIA_VISIBLE_DEVICES"] || len(r.made()) != 2 {
		t.Errorf("reserved again: %+v, %v; there is %q", again, err, r.made())
	}
	stats, err := r.Stats(context.WithoutCancel(t.Context()), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if s := <-stats; !slices.ContainsFunc(s, func(g device.GroupStats) bool {
		_, ok := g.Instances[ids[0]]
		return ok && strings.HasSuffix(g.Name, "MIG 1g.5gb")
	}) {
		t.Errorf("the instance is not measured under its id: %+v", s)
	}
	nvmltest.Say(t, r.lib, "busy-0", "")
	if err := r.Release(t.Context(), device.Holder{}, ids); !errdefs.IsUnavailable(err) {
		t.Errorf("released while a process uses it: %v", err)
	}
	nvmltest.Unsay(t, r.lib, "busy-0")
	for range 2 {
		if err := r.Release(t.Context(), device.Holder{}, ids); err != nil || len(r.made()) != 0 {
			t.Errorf("released: %v; there is %q", err, r.made())
		}
	}
}

func TestAnInstanceThatWasHalfMadeIsMadeWhole(t *testing.T) {
	r := dividing(t, "3g.20gb", "3g.20gb")
	r.until("the offers are there", func(f device.Fingerprint) bool { return instance(f, gpu2+":3g.20gb:4") != nil })
	ids := []string{gpu2 + ":3g.20gb:4", gpu2 + ":3g.20gb:0"}
	nvmltest.Say(t, r.lib, "no-compute", "")
	if _, err := r.Reserve(t.Context(), ids[:1]); err == nil || !slices.Equal(r.made(), []string{"gi-0"}) {
		t.Fatalf("%v; there is %q", err, r.made())
	}
	nvmltest.Unsay(t, r.lib, "no-compute")
	got, err := r.Reserve(t.Context(), ids) // as another process does after this one was killed
	if err != nil || len(strings.Split(got.Env["NVIDIA_VISIBLE_DEVICES"], ",")) != 2 || len(r.made()) != 4 {
		t.Fatalf("%+v, %v; there is %q", got, err, r.made())
	}
	r.configure(map[string]any{"mig_profiles": []any{"7g.40gb"}}) // meanwhile somebody changes the config
	f := r.until("the new offer is there", func(f device.Fingerprint) bool { return instance(f, gpu2+":7g.40gb:0") != nil })
	if i := instance(f, gpu2+":7g.40gb:0"); i.Healthy || !strings.Contains(i.HealthDescription, "GPU instance") {
		t.Errorf("its place is taken and it is %+v", i)
	}
	if err := r.Release(t.Context(), device.Holder{}, ids); err != nil || len(r.made()) != 0 {
		t.Errorf("what the old config offered: %v; there is %q", err, r.made())
	}
	r.until("the place is free", func(f device.Fingerprint) bool { i := instance(f, gpu2+":7g.40gb:0"); return i != nil && i.Healthy })
}

func TestProfilesThatDoNotFitTogetherAreNamed(t *testing.T) {
	for _, bad := range [][]any{{"3g.20gb", "3g.20gb", "1g.5gb"}, {"9g.80gb"}} {
		r := dividing(t, bad...)
		f := r.until("the problem is told", func(f device.Fingerprint) bool { return f.Problem != "" && strings.Contains(f.Problem, "mig_profiles") })
		if instance(f, gpu0) == nil || !strings.Contains(f.Problem, gpu2) {
			t.Errorf("%v: %+v", bad, f)
		}
	}
	d := fresh(t)
	for _, body := range []string{
		`{"fingerprint_period":"1m","shares":2,"mig_profiles":["1g.5gb"]}`,
		`{"fingerprint_period":"1m","shares":1,"mig_profiles":["a","a","a","a","a","a","a","a","a"]}`,
	} {
		if err := d.SetConfig(t.Context(), []byte(body)); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestProfilesForGPUsThatAreNotDividedAreToldOf(t *testing.T) {
	r := start(t, map[string]any{"mig_profiles": []any{"2g.10gb"}, "ignored_gpu_ids": []any{gpu2 + ":2g.10gb:0"}})
	f := r.until("the problem is told", func(f device.Fingerprint) bool { return strings.Contains(f.Problem, "mig_profiles has no effect") })
	if i := instance(f, gpu0); i == nil || !i.Healthy {
		t.Errorf("the whole GPU is not offered: %+v", f)
	}
}

func TestThePluginKeepsTheContractWhileItDivides(t *testing.T) {
	lib := nvmltest.Build(t)
	nvmltest.Say(t, lib, "on-demand", "")
	binary := filepath.Join(t.TempDir(), "device-nvidia")
	if out, err := exec.Command("go", "build", "-o", binary, "..").CombinedOutput(); err != nil {
		t.Fatalf("build the plugin: %v\n%s", err, out)
	}
	devicetest.Run(t, devicetest.Options{
		New: fresh, Binary: binary, Name: devicenvidia.Name,
		// The other GPUs are ignored, so that the checks reserve the instances.
		Config: map[string]any{"library": lib, "mig_profiles": []any{"2g.10gb", "2g.10gb"}, "ignored_gpu_ids": []any{gpu0, gpu1}},
	})
}

func TestAttributesInWhichGPUsDifferAreOfEach(t *testing.T) {
	r := start(t, nil)
	f := r.until("the GPUs are there", func(f device.Fingerprint) bool { return instance(f, gpu1) != nil })
	for id, watts := range map[string]int64{gpu0: 70, gpu1: 60} {
		if a := instance(f, id).Attributes["power"]; a.Int == nil || *a.Int != watts || a.Unit != "W" {
			t.Errorf("%s: %+v", id, instance(f, id).Attributes)
		}
	}
}
