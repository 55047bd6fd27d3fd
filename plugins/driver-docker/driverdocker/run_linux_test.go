// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestATaskSeesItsFoldersItsEnvironmentAndNothingMore(t *testing.T) {
	n := newNode(t, nil)
	tc := n.task(script(`echo $NOMAD_TASK_DIR $NOMAD_ALLOC_DIR $NOMAD_SECRETS_DIR $FROM_IMAGE; echo made > /local/made; cat /secrets/s; ls /alloc; grep CapEff /proc/self/status; id -u`))
	if err := os.WriteFile(filepath.Join(tc.TaskDir, "secrets", "s"), []byte("secret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	want := "/local /alloc /secrets busybox\nsecret\ndata\nlogs\nCapEff:\t00000000a80405fb\n0\n"
	if got := n.output(tc); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if body, err := os.ReadFile(filepath.Join(tc.TaskDir, "local", "made")); err != nil || string(body) != "made\n" {
		t.Errorf("what the task made: %q, %v", body, err)
	}
}

func TestAContainerOfAnyUserUsesItsFoldersWhichNobodyElseOfTheMachineReaches(t *testing.T) {
	n := newNode(t, nil)
	tc := n.task(with(script("cat /secrets/token /tls/token; touch /secrets/own /local/own; id -u"), map[string]any{"volumes": []any{"secrets:/tls:ro"}}))
	tc.User = "1234"
	token := filepath.Join(tc.TaskDir, "secrets", "token")
	if err := os.WriteFile(token, []byte("s3cret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := n.output(tc); got != "s3cret\ns3cret\n1234\n" {
		t.Errorf("output %q", got)
	}
	for dir := filepath.Dir(tc.AllocDir); dir != "/tmp"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("cat", token)
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1234, Gid: 1234}}
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("the same user outside of the container reads %q", out)
	}
}

func TestTheConfigReachesTheContainer(t *testing.T) {
	n := newNode(t, nil)
	tc := n.task(with(script(`hostname; pwd; id -u; id -G; ulimit -n; cat /proc/sys/net/core/somaxconn; grep ' /scratch ' /proc/mounts | cut -d' ' -f3
touch /x 2>/dev/null || echo ro; cat /cfg/f; ls /dev/drover; cat /sys/fs/cgroup/pids/pids.max 2>/dev/null || cat /sys/fs/cgroup/pids.max; grep -o 'db$' /etc/hosts; grep CapBnd /proc/self/status | cut -f2; grep Seccomp: /proc/self/status | cut -f2`), map[string]any{
		"hostname": "tower", "work_dir": "/tmp", "ulimit": map[string]any{"nofile": "300:400"}, "sysctl": map[string]any{"net.core.somaxconn": "77"},
		"mount": []any{map[string]any{"type": "tmpfs", "target": "/scratch"}}, "readonly_rootfs": true, "volumes": []any{"local/cfg:/cfg"}, "group_add": []any{"77"},
		"devices": map[string]any{"host_path": "/dev/null", "container_path": "/dev/drover"}, "pids_limit": 33, "cap_drop": []any{"all"},
		"extra_hosts": []any{"db:10.1.2.3"}, "labels": map[string]any{"team": "a"}, "logging": map[string]any{"type": "local"},
	}))
	tc.User = "nobody"
	if err := os.MkdirAll(filepath.Join(tc.TaskDir, "local", "cfg"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tc.TaskDir, "local", "cfg", "f"), []byte("cfg\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	want := "tower\n/tmp\n65534\n65534 77\n300\n77\ntmpfs\nro\ncfg\n/dev/drover\n33\ndb\n0000000000000000\n2\n"
	if got := n.output(tc); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := n.inspect(tc, `{{.Config.Labels.team}} {{.HostConfig.LogConfig.Type}} {{index .Config.Labels "com.hashicorp.nomad.alloc_id"}}`); got != "a local "+tc.AllocID {
		t.Errorf("inspected: %s", got)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func TestAPublishedPortIsReached(t *testing.T) {
	n := newNode(t, nil)
	tc := n.task(with(script(`echo served > /local/page; exec httpd -f -p 8080 -h /local`), map[string]any{"ports": []any{"http"}}))
	tc.Ports = []driver.Port{{Label: "http", Value: freePort(t), To: 8080, HostIP: "127.0.0.1"}, {Label: "other", Value: 1}}
	_, address, err := n.d.StartTask(limit(t), tc)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.d.DestroyTask(limit(t), tc.Ref(), true); err != nil {
			t.Error(err)
		}
	}()
	if address == nil || net.ParseIP(address.IP) == nil || address.AutoAdvertise || address.PortMap["http"] != 8080 || len(address.PortMap) != 1 {
		t.Errorf("address %+v", address)
	}
	for _, url := range []string{fmt.Sprintf("http://127.0.0.1:%d/page", tc.Ports[0].Value), fmt.Sprintf("http://%s:8080/page", address.IP)} {
		eventually(t, url+" is served", func() bool {
			r, err := http.Get(url)
			if err != nil {
				return false
			}
			defer r.Body.Close()
			body, err := io.ReadAll(r.Body)
			return err == nil && string(body) == "served\n"
		})
	}
	s, err := n.d.InspectTask(limit(t), tc.ID)
	if err != nil || s.Attributes["container_name"] != "web-"+tc.AllocID || s.Attributes["port.8080/tcp"] == "" || s.Attributes["network.bridge.ip"] != address.IP {
		t.Errorf("inspected: %+v, %v", s, err)
	}
}

func TestNetworksOfTheDaemonAndOfOtherContainersAreJoined(t *testing.T) {
	n := newNode(t, nil)
	n.cli("network", "create", "--subnet", "10.209.7.0/24", "backend")
	defer n.cli("network", "rm", "backend")
	one := n.task(with(script("sleep 600"), map[string]any{"network_mode": "backend", "ipv4_address": "10.209.7.77", "network_aliases": []any{"alpha"}}))
	_, address, err := n.d.StartTask(limit(t), one)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.d.DestroyTask(limit(t), one.Ref(), true); err != nil {
			t.Error(err)
		}
	}()
	if address == nil || address.IP != "10.209.7.77" || !address.AutoAdvertise {
		t.Errorf("address %+v", address)
	}
	two := n.task(with(script("ip -4 addr show eth0 | grep -o 10.209.7.77"), map[string]any{"network_mode": "container:web-" + one.AllocID}))
	if got := n.output(two); got != "10.209.7.77\n" {
		t.Errorf("in the other's network: %q", got)
	}
	three := n.task(with(script("ls /sys/class/net"), map[string]any{"network_mode": "none"}))
	if got := n.output(three); got != "lo\n" {
		t.Errorf("without a network: %q", got)
	}
}

func TestATaskThatUsesTooMuchMemoryIsReportedSo(t *testing.T) {
	n := newNode(t, nil)
	events, err := n.d.TaskEvents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Of a container that is killed within milliseconds of its start, the daemon may not notice
	// why.
	tc := n.task(script("sleep 1; exec tail /dev/zero"))
	tc.Resources.MemoryMB = 16
	n.run(tc)
	if r := n.wait(tc); !r.OOMKilled || r.ExitCode != 137 {
		t.Fatalf("result %+v", r)
	}
	for e := range events {
		if e.TaskID == tc.ID && strings.Contains(e.Message, "memory") {
			break
		}
	}
}

func TestAContainerThatSomeoneElseRemovesEndsItsTask(t *testing.T) {
	n := newNode(t, nil)
	tc := n.task(script("sleep 600"))
	n.run(tc)
	n.cli("rm", "-f", "web-"+tc.AllocID)
	if r := n.wait(tc); r.Successful() || r.ExitCode != 137 && r.Err == "" {
		t.Errorf("result %+v", r)
	}
}

func TestAStartThatFailsLeavesNothing(t *testing.T) {
	n := newNode(t, nil)
	for name, config := range map[string]map[string]any{
		"no such command": {"command": "/no/such/command"},
		"no such network": {"network_mode": "nowhere"},
		"no such runtime": {"runtime": "nvidia"},
		"bad log option":  {"logging": map[string]any{"config": map[string]any{"max-size": "much"}}},
	} {
		t.Run(name, func(t *testing.T) {
			tc := n.task(config)
			if _, _, err := n.d.StartTask(limit(t), tc); err == nil {
				t.Error("it started")
			}
			if _, err := n.d.InspectTask(limit(t), tc.ID); !errdefs.IsNotFound(err) {
				t.Errorf("the task is known: %v", err)
			}
			if got := n.cli("ps", "-aq", "--filter", "name="+tc.AllocID); got != "" {
				t.Errorf("a container is left: %s", got)
			}
		})
	}
}

func TestANameIsTakenOverOnlyFromAnOlderRunOfTheSameTask(t *testing.T) {
	n := newNode(t, nil)
	tc := n.task(script("sleep 600"))
	n.cli("run", "-d", "--name", "web-"+tc.AllocID, "--label", "io.drover.alloc_id="+tc.AllocID, "--label", "io.drover.task_name=web", "busybox:drover", "sleep", "600")
	if _, _, err := n.d.StartTask(limit(t), tc); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("a foreign container has the name: class %s, %v", errdefs.ClassOf(err), err)
	}
	if got := n.inspect(tc, "{{.State.Running}}"); got != "true" {
		t.Errorf("the foreign container runs: %s", got)
	}
	n.cli("rm", "-f", "web-"+tc.AllocID)

	// A start whose answer was lost because the process died.
	n.run(tc)
	before := n.inspect(tc, "{{.Id}}")
	n.close()
	n.start()
	again := *tc
	again.ID = tc.AllocID + "/web/2"
	n.run(&again)
	if after := n.inspect(tc, "{{.Id}}"); after == before {
		t.Error("the older container is still there")
	}
}

func TestStatsShowWhatATaskUses(t *testing.T) {
	n := newNode(t, nil)
	tc := n.task(script("while :; do :; done"))
	n.run(tc)
	samples, err := n.d.TaskStats(limit(t), 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	for batch := range samples {
		for _, s := range batch {
			if s.TaskID == tc.ID && s.CPU.Percent > 5 && s.Memory.Usage > 0 {
				return
			}
		}
	}
	t.Error("no sample shows the use")
}

func TestLabelsOfTheDriverCannotBeForged(t *testing.T) {
	n := newNode(t, nil)
	tc := n.task(map[string]any{"labels": map[string]any{"io.drover.task_id": "x"}})
	if _, _, err := n.d.StartTask(limit(t), tc); !errdefs.IsInvalidArgument(err) {
		t.Errorf("class %s, %v", errdefs.ClassOf(err), err)
	}
}

func TestAllKindsOfMountsAreThere(t *testing.T) {
	n := newNode(t, map[string]any{"volumes": map[string]any{"enabled": true}})
	t.Cleanup(func() { n.cli("volume", "rm", "-f", "drover-test") })
	host := t.TempDir()
	tc := n.task(with(script(`for d in /vol /bind /tmpfs /named /group; do touch $d/f 2>/dev/null && echo $d; done; grep -c ' /bind .*ro[ ,]' /proc/mounts; ls -ld /tmpfs | cut -c1-10`), map[string]any{
		"volumes": []any{"local/new/folder:/vol"}, "mounts": []any{
			map[string]any{"type": "bind", "source": host, "target": "/bind", "readonly": true, "bind_options": map[string]any{"propagation": "rprivate"}},
			map[string]any{"type": "tmpfs", "target": "/tmpfs", "tmpfs_options": map[string]any{"size": 65536, "mode": 0o700}},
			map[string]any{"source": "drover-test", "target": "/named", "volume_options": map[string]any{"labels": map[string]any{"a": "b"}}},
		},
	}))
	tc.Mounts = []driver.Mount{{HostPath: host, TaskPath: "/group"}}
	if got, want := n.output(tc), "/vol\n/tmpfs\n/named\n/group\n1\ndrwx------\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := os.Stat(filepath.Join(host, "f")); err != nil {
		t.Errorf("the volume of the group: %v", err)
	}
}

func TestALogDriverThatCannotBeReadBackIsSaid(t *testing.T) {
	n := newNode(t, nil)
	events, err := n.d.TaskEvents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tc := n.task(with(script("echo lost"), map[string]any{"logging": map[string]any{"type": "none"}}))
	n.run(tc)
	if r := n.wait(tc); !r.Successful() {
		t.Errorf("result %+v", r)
	}
	if e := <-events; e.TaskID != tc.ID || !strings.Contains(e.Message, "log driver") {
		t.Errorf("event %+v", e)
	}
}

func TestContainersAreKeptWhereTheOperatorWantsThat(t *testing.T) {
	n := newNode(t, map[string]any{"gc": map[string]any{"container": false, "dangling_containers": map[string]any{"period": "1s"}}})
	tc := n.task(script("exit 3"))
	n.run(tc)
	n.wait(tc)
	for range 2 {
		if err := n.d.DestroyTask(limit(t), tc.Ref(), true); err != nil {
			t.Fatal(err)
		}
		if got := n.inspect(tc, "{{.State.ExitCode}}"); got != "3" {
			t.Errorf("the kept container has exit code %s", got)
		}
		tc.ID += "+" // the next run takes over the container's name
		n.run(tc)
		n.wait(tc)
	}
	n.cli("rm", "-f", "web-"+tc.AllocID)
	eventually(t, "the mounts go with the container", func() bool { return mountsBelow(t, n.dir) == 0 })
}
