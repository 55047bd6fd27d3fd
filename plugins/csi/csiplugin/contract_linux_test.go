// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csiplugin_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/drover-project/drover/plugins/csi-local/csilocal"
	"github.com/drover-project/drover/plugins/csi/csiplugin"
	"github.com/drover-project/drover/sdk/errdefs"
	volume "github.com/drover-project/drover/sdk/volume/v1"
	"github.com/drover-project/drover/sdk/volume/v1/volumecheck"
	"github.com/drover-project/drover/sdk/volume/v1/volumetest"
)

// local runs the first-party driver until the test ends.
func local(t testing.TB) (socket string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	for _, name := range []string{"mkfs.ext4", "mount"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed: %v", name, err)
		}
	}
	dir := t.TempDir()
	d, err := csilocal.Open(csilocal.Config{Dir: filepath.Join(dir, "data"), NodeID: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "csi.sock")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Serve(ctx, socket) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		d.Close()
	})
	return socket
}

func TestThePluginKeepsTheContractWithTheLocalDriver(t *testing.T) {
	for name, s := range map[string]volumecheck.Subject{
		"ext4":      {},
		"directory": {Parameters: map[string]string{"kind": "directory"}},
		"block":     {Access: volume.Access{Attachment: volume.AttachmentBlockDevice}},
	} {
		t.Run(name, func(t *testing.T) {
			s.Config = map[string]any{"endpoint": "unix://" + local(t)}
			s.Secrets = volume.Secrets{"password": "hush-hush"}
			dir := t.TempDir()
			volumetest.Run(t, volumetest.Options{New: func(*testing.T) volume.Volume { return csiplugin.New(dir) }, Subject: s})
		})
	}
}

// A driver in a container sees the paths of volumes elsewhere than the machine does.
func TestPathsAreThoseOfTheDriver(t *testing.T) {
	socket := local(t)
	dir := t.TempDir()
	host, alias := filepath.Join(dir, "host"), filepath.Join(dir, "driver")
	if err := errors.Join(os.Mkdir(host, 0o700), os.Symlink(host, alias)); err != nil {
		t.Fatal(err)
	}
	p := csiplugin.New(filepath.Join(dir, "plugin"))
	if err := p.SetConfig(t.Context(), config(t, map[string]any{"endpoint": socket, "host_dir": host, "driver_dir": alias})); err != nil {
		t.Fatal(err)
	}
	access := volume.Access{Mode: volume.SingleNodeWriter}
	d, err := p.Create(t.Context(), volume.CreateRequest{Name: "v", Access: []volume.Access{access}, Capacity: volume.CapacityRange{RequiredBytes: 4 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	staging, target := filepath.Join(host, "staging"), filepath.Join(host, "target")
	err = p.Stage(t.Context(), volume.StageRequest{ID: d.ID, StagingPath: staging, Access: access})
	if err == nil {
		err = p.Publish(t.Context(), volume.PublishRequest{ID: d.ID, StagingPath: staging, TargetPath: target, Access: access})
	}
	if err != nil {
		t.Error(err)
	}
	if err := p.Publish(t.Context(), volume.PublishRequest{ID: d.ID, StagingPath: staging, TargetPath: filepath.Join(dir, "outside"), Access: access}); !errdefs.IsInvalidArgument(err) {
		t.Errorf("a path that the driver does not see: %v, want InvalidArgument", err)
	}
	if err := errors.Join(p.Unpublish(t.Context(), d.ID, target), p.Unstage(t.Context(), d.ID, staging), p.Delete(t.Context(), d.ID, nil)); err != nil {
		t.Error(err)
	}
}

// The plugin and the driver as processes, of which the plugin's is killed.
func TestTheProcessesKeepTheContract(t *testing.T) {
	local(t) // whether this machine can
	dir := t.TempDir()
	plugin, driver := filepath.Join(dir, "csi"), filepath.Join(dir, "csi-local")
	for binary, of := range map[string]string{plugin: "../../csi", driver: "../../csi-local"} {
		if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, of).CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", of, err, out)
		}
	}
	socket := filepath.Join(dir, "csi.sock")
	cmd := exec.Command(driver, "-data-dir", filepath.Join(dir, "data"), "-node-id", "n1")
	cmd.Env = append(os.Environ(), "CSI_ENDPOINT=unix://"+socket)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it runs
		if err := cmd.Wait(); err != nil {
			t.Errorf("the driver ends with %v", err)
		}
	})
	for end := time.Now().Add(time.Minute); ; <-time.After(5 * time.Millisecond) {
		if _, err := os.Stat(socket); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the driver does not listen")
		}
	}
	volumetest.Run(t, volumetest.Options{Binary: plugin, Dir: dir, Env: os.Environ(), Subject: volumecheck.Subject{Config: map[string]any{"endpoint": socket}}})
}
