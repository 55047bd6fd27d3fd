// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package pluginhost_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/device"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// other puts an executable that does the same and has another digest, or a script,
// in the place of a plugin.
func other(t *testing.T, cfg pluginhost.Config, name, executable string) {
	t.Helper()
	body := []byte(executable)
	if !strings.HasPrefix(executable, "#!") {
		var err error
		if body, err = os.ReadFile(executable); err != nil {
			t.Fatal(err)
		}
		body = append(body, '\n')
	}
	temp := filepath.Join(cfg.Dir, "."+name+".new")
	if err := os.WriteFile(temp, body, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temp, filepath.Join(cfg.Dir, name)); err != nil {
		t.Fatal(err)
	}
}

func TestADriverBuiltForNomadIsUpgradedUnderItsTask(t *testing.T) {
	cfg := nomadConfig(t)
	cfg.SettleTime, cfg.RescanInterval = 50*time.Millisecond, time.Second
	h := start(t, cfg)
	d := hello(t, h)
	_, logs := helloTask(t, d, "t1", "i=0; while :; do i=$((i+1)); echo line-$i; sleep 0.02; done")
	waited := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_, err := d.WaitTask(ctx, "t1")
		waited <- err
	}()
	// size grows for as long as somebody reads what the task writes.
	size := func() int64 {
		info, err := os.Stat(logs.StdoutPath + ".0")
		if err != nil {
			return 0
		}
		return info.Size()
	}
	grows := func(when string) {
		t.Helper()
		before := size()
		eventually(t, "the task's log grows "+when, func() bool { return size() > before })
	}
	grows("at first")
	pid := only(t, h).PID
	other(t, cfg, "nomad-hello", nomadBinary)
	eventually(t, "another process has taken over", func() bool { return only(t, h).PID != pid && only(t, h).State == pluginhost.StateRunning })
	eventually(t, "the old one has ended", gone(pid))
	grows("after the upgrade")
	if st, err := d.InspectTask(t.Context(), "t1"); err != nil || st.State != driver.TaskRunning {
		t.Fatalf("the task: %+v, %v", st, err)
	}
	pid = only(t, h).PID
	other(t, cfg, "nomad-hello", "#!/bin/sh\necho broken >&2\nexit 1\n")
	eventually(t, "the bad version is told", func() bool { return only(t, h).UpgradeError != nil })
	if st := only(t, h); st.PID != pid || st.Restarts != 0 || !strings.Contains(st.UpgradeError.Error(), "broken") {
		t.Fatalf("status %+v", st)
	}
	grows("after a version that does not work")
	select {
	case err := <-waited:
		t.Fatalf("the wait ended: %v", err)
	default:
	}
}

func TestDevicesAreOfferedWithoutAGapOverAnUpgrade(t *testing.T) {
	cfg, dir := withDevices(t)
	cfg.SettleTime, cfg.RescanInterval = 50*time.Millisecond, time.Second
	h := start(t, cfg)
	eventually(t, "devices are measured", func() bool { return len(h.DeviceStats(t.Context())) == 1 })
	stop := make(chan struct{})
	missed := make(chan error, 1)
	go func() {
		defer close(missed)
		for {
			select {
			case <-stop:
				return
			default:
			}
			prints, _ := h.Devices()
			if len(prints) != 1 || len(prints[0].Groups) != 1 || len(prints[0].Groups[0].Instances) != 2 {
				missed <- errdefs.Internalf("fingerprints %+v", prints)
				return
			}
			if _, err := h.ReserveDevices(t.Context(), device.Holder{}, device.Set{Vendor: "drover", Type: "file", Name: "file-4", IDs: []string{"b"}}, nil); err != nil {
				missed <- err
				return
			}
		}
	}()
	pid := only(t, h).PID
	other(t, cfg, "devices", binary)
	eventually(t, "another process has taken over", func() bool { return only(t, h).PID != pid && only(t, h).State == pluginhost.StateRunning })
	eventually(t, "the old one has ended", gone(pid))
	close(stop)
	if err := <-missed; err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new process measures them", func() bool { return len(h.DeviceStats(t.Context())) == 1 })
	for _, name := range []string{"a", "b"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the new process is followed", func() bool { prints, _ := h.Devices(); return len(prints[0].Groups) == 0 })
}
