// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package pluginhost_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/driver"
)

// upgrading is a process with a host that starts a task, says its handle, and then
// installs one version after another until it is killed.
func upgrading(dir string, sources []string) {
	ctx := context.Background()
	h, err := pluginhost.New(agentConfig(dir))
	if err == nil {
		err = h.Start(ctx)
	}
	if err == nil {
		_, err = h.Install(ctx, pluginhost.Release{Name: "versioned", Source: sources[0]})
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := h.Driver("shell")
	if err != nil {
		fmt.Println(err)
		return
	}
	handle, _, err := d.StartTask(ctx, &driver.TaskConfig{ID: "t", TaskDir: dir, DriverConfig: []byte(`{"script":"sleep 1000"}`),
		Env: map[string]string{"PATH": os.Getenv("PATH")}, Logs: driver.LogConfig{Disabled: true}})
	if err != nil {
		fmt.Println(err)
		return
	}
	body, _ := json.Marshal(handle) // a handle is plain values
	fmt.Println(string(body))
	for i := 1; ; i++ {
		if _, err := h.Install(ctx, pluginhost.Release{Name: "versioned", Source: sources[i%len(sources)]}); err != nil {
			fmt.Println(err)
		}
	}
}

// pluginProcesses counts the processes that have the host's sockets.
func pluginProcesses(t *testing.T, stateDir string) (pids []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range all {
		env, _ := os.ReadFile(filepath.Join(dir, "environ")) // it may have ended
		args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if bytes.Contains(env, []byte("DROVER_PLUGIN_STATE_DIR="+stateDir)) && bytes.Count(args, []byte{0}) == 1 {
			pid, err := strconv.Atoi(filepath.Base(dir))
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestAnAgentThatIsKilledInAnUpgradeLeavesOneWholeVersion(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("no /proc here: what is left cannot be counted")
	}
	a, digestA := release(t, "1.0.0", "")
	b, digestB := release(t, "2.0.0", "")
	versions := map[string]string{"1.0.0": digestA, "2.0.0": digestB}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for round := range 8 {
		dir := t.TempDir()
		cfg := agentConfig(dir)
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), "PLUGINHOST_TEST_UPGRADER="+dir, "PLUGINHOST_TEST_SOURCES="+a+":"+b)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		line, err := lines.ReadBytes('\n')
		handle := &driver.Handle{}
		if err == nil {
			err = json.Unmarshal(line, handle)
		}
		if err != nil {
			t.Fatalf("the agent said %q: %v", line, err)
		}
		// Anywhere in the upgrades that follow.
		<-time.After(time.Duration(round) * 37 * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed

		h := start(t, cfg)
		st := only(t, h)
		if st.State != pluginhost.StateRunning || versions[st.Version] == "" {
			t.Fatalf("round %d: status %+v", round, st)
		}
		eventually(t, "the digest is that of the version", func() bool { return status(h, "versioned").Digest == versions[st.Version] })
		eventually(t, "one process is left", func() bool {
			pids := pluginProcesses(t, cfg.StateDir)
			return len(pids) == 1 && pids[0] == status(h, "versioned").PID
		})
		d := shell(t, h)
		if err := d.RecoverTask(t.Context(), handle); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if info, err := d.InspectTask(t.Context(), "t"); err != nil || info.State != driver.TaskRunning {
			t.Fatalf("round %d: the task: %+v, %v", round, info, err)
		}
		if _, err := h.Install(t.Context(), pluginhost.Release{Name: "versioned", Source: a}); err != nil {
			t.Fatalf("round %d: an upgrade afterwards: %v", round, err)
		}
		_ = d.DestroyTask(t.Context(), driver.TaskRef{ID: "t"}, true) // of the test
		h.Close(false)
	}
}
