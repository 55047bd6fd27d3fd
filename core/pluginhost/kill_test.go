// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package pluginhost_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// files is a Store that outlives its process.
type files string

func (f files) path(key string) string {
	return filepath.Join(string(f), strings.ReplaceAll(key, "/", "_"))
}

func (f files) Get(_ context.Context, key string) ([]byte, error) {
	body, err := os.ReadFile(f.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errdefs.NotFoundf("key %q", key)
	}
	return body, err
}

func (f files) Put(_ context.Context, key string, value []byte) error {
	temp := f.path(key) + ".new"
	if err := os.WriteFile(temp, value, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, f.path(key)) // the process may be killed in between
}

func (f files) Delete(_ context.Context, key string) error { return os.Remove(f.path(key)) }

func agentConfig(dir string) pluginhost.Config {
	return pluginhost.Config{Dir: filepath.Join(dir, "plugins"), StateDir: filepath.Join(dir, "state"), Store: files(dir)}
}

// agent is a process with a host that is going to be killed.
func agent(dir string) {
	h, err := pluginhost.New(agentConfig(dir))
	if err == nil {
		err = h.Start(context.Background())
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(h.Status()[0].PID)
	select {}
}

func TestAPluginSurvivesTheKillOfItsAgentThoughItWritesToItsLog(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "plugins"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary, filepath.Join(dir, "plugins", "chatty")); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "PLUGINHOST_TEST_AGENT="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("the agent said %q", line)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	// Long enough for many lines into the broken pipe.
	<-time.After(100 * time.Millisecond)

	h := start(t, agentConfig(dir))
	st := only(t, h)
	if st.PID != pid || !st.Reattached {
		t.Fatalf("status %+v, want pid %d reattached", st, pid)
	}
	d := shell(t, h)
	startTask(t, d, "t1", "exit 3")
	if r, err := d.WaitTask(t.Context(), "t1"); err != nil || r.ExitCode != 3 {
		t.Fatalf("result %+v, %v", r, err)
	}
	prints, _ := h.Fingerprints()
	if len(prints) != 2 || prints[0].Health != driver.HealthHealthy {
		t.Fatalf("fingerprints %+v", prints)
	}
}
