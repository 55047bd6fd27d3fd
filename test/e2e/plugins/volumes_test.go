// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugins_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/volume"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/test/e2e/harness"
)

// TestAVolumeOfACSIDriverOutlivesItsPluginAndItsDriver has a plugin host, the plugin csi and
// the local driver as the processes that they are, and kills two of them.
func TestAVolumeOfACSIDriverOutlivesItsPluginAndItsDriver(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		t.Skipf("mkfs.ext4 is not installed: %v", err)
	}
	dir := t.TempDir()
	socket := filepath.Join(dir, "csi.sock")
	driver := func() *exec.Cmd {
		cmd := exec.Command(filepath.Join(harness.Bin(), "drover-plugins"), "drover-csi-local", "-data-dir", filepath.Join(dir, "data"), "-node-id", "n1")
		cmd.Env = append(os.Environ(), "CSI_ENDPOINT=unix://"+socket)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // it may have been killed
			_ = cmd.Wait()         // for the same reason
		})
		return cmd
	}
	first := driver()
	plugins := filepath.Join(dir, "plugins")
	if err := errors.Join(os.Mkdir(plugins, 0o755), os.Symlink(filepath.Join(harness.Bin(), "drover-plugins"), filepath.Join(plugins, "csi"))); err != nil {
		t.Fatal(err)
	}
	h, err := pluginhost.New(pluginhost.Config{Dir: plugins, StateDir: filepath.Join(dir, "state")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close(false) })
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	of := func(name string) (out pluginhost.PluginStatus) {
		for _, st := range h.Status() {
			if st.Name == name {
				out = st
			}
		}
		return out
	}
	testkit.Eventually(t, "the plugin itself has no process, since no driver is there", func() bool {
		st := of("csi")
		return st.State == pluginhost.StateResting && st.PID == 0
	})
	err = h.RunVolume(t.Context(), pluginhost.VolumeInstance{Name: "disk", Plugin: "csi", Config: map[string]any{"endpoint": socket}})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the driver is known", func() bool {
		prints, _ := h.Volumes()
		return len(prints) == 1 && prints[0].Name == "disk" && prints[0].Problem == "" && prints[0].Node != nil && prints[0].Can("stage")
	})
	access := volume.Access{Mode: "single-node-writer", Attachment: "file-system"}
	staging, target := filepath.Join(dir, "staging"), filepath.Join(dir, "target")
	var id string
	forth := func(ctx context.Context, v volume.Backend) error {
		d, err := v.Create(ctx, volume.CreateRequest{Name: "v", Access: []volume.Access{access}, Capacity: volume.CapacityRange{RequiredBytes: 8 << 20}})
		if err != nil {
			return err
		}
		id = d.ID
		if err := v.Stage(ctx, volume.StageRequest{ID: id, StagingPath: staging, Access: access}); err != nil {
			return err
		}
		return v.Publish(ctx, volume.PublishRequest{ID: id, StagingPath: staging, TargetPath: target, Access: access})
	}
	again := func(what string, do func(context.Context, volume.Backend) error) {
		t.Helper()
		testkit.Eventually(t, what, func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			return h.WithVolume(ctx, "disk", do) == nil
		})
	}
	again("the volume is published", forth)
	file := filepath.Join(target, "file")
	if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(of("csi@disk").PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if body, err := os.ReadFile(file); err != nil || string(body) != "kept" {
		t.Errorf("without plugin and driver the volume has %q, %v", body, err)
	}
	driver()
	again("the new processes take the volume over", forth)
	if body, err := os.ReadFile(file); err != nil || string(body) != "kept" {
		t.Errorf("after that the volume has %q, %v", body, err)
	}
	again("the volume is taken back and removed", func(ctx context.Context, v volume.Backend) error {
		if err := v.Unpublish(ctx, id, target); err != nil {
			return err
		}
		if err := v.Unstage(ctx, id, staging); err != nil {
			return err
		}
		return v.Delete(ctx, id, nil)
	})
	again("nothing is left of it", func(ctx context.Context, v volume.Backend) error {
		all, err := v.Published(ctx)
		if err == nil && len(all) > 0 {
			err = errors.New("something is left")
		}
		return err
	})
	if _, err := os.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the target is left: %v", err)
	}
}
