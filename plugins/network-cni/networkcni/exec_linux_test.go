// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkcni_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	network "github.com/drover-project/drover/sdk/network/v1"
)

// A program that went on would make its network beside the one that the next process makes.
func TestAProgramEndsWithThePluginThatIsKilled(t *testing.T) {
	if dir := os.Getenv("NETWORK_CNI_TEST"); dir != "" { // the plugin
		b := &bed{t: t, dir: dir, programs: dir, nets: dir}
		_, err := b.fresh().Create(t.Context(), network.Request{AllocID: "web", Network: "cni/hang"})
		t.Fatal(err)
	}
	b := newBed(t)
	b.programs, b.nets = b.dir, b.dir
	b.program("hang", `case "$CNI_COMMAND" in
VERSION) echo '{"cniVersion": "1.0.0", "supportedVersions": ["1.0.0"]}' ;;
ADD) echo $$ > `+b.dir+`/new; mv `+b.dir+`/new `+b.dir+`/pid; exec sleep 1000 ;;
esac`)
	b.config("a.conf", `{"cniVersion": "1.0.0", "name": "hang", "type": "hang"}`)
	plugin := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	plugin.Env = append(os.Environ(), "NETWORK_CNI_TEST="+b.dir)
	if err := plugin.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plugin.Wait() }()
	defer func() { _ = plugin.Process.Kill() }()
	var program int
	for end := time.Now().Add(time.Minute); program == 0; <-time.After(time.Millisecond) {
		if body, err := os.ReadFile(filepath.Join(b.dir, "pid")); err == nil {
			program, _ = strconv.Atoi(strings.TrimSpace(string(body)))
		} else if time.Now().After(end) {
			t.Fatal("the program was not started")
		}
	}
	defer func() { _ = syscall.Kill(program, syscall.SIGKILL) }()
	if err := plugin.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); alive(program); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the program still runs")
		}
	}
	if err := b.fresh().Destroy(t.Context(), "web"); err != nil {
		t.Error(err)
	}
}

// alive reports whether a process runs; one that is dead and not waited for does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
