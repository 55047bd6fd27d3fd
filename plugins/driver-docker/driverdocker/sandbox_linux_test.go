// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/plugins/driver-docker/dockertest"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// network makes the network of an alloc.
func (n *node) network(alloc string) *driver.NetworkIsolation {
	n.t.Helper()
	made, err := n.d.CreateNetwork(limit(n.t), driver.NetworkRequest{AllocID: alloc, Hostname: "shop"})
	if err != nil {
		n.t.Fatalf("CreateNetwork: %v", err)
	}
	return made
}

func (n *node) destroyNetwork(alloc string, made *driver.NetworkIsolation) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // it is called by cleanups, too
	defer cancel()
	if err := n.d.DestroyNetwork(ctx, alloc, made); err != nil {
		n.t.Errorf("DestroyNetwork: %v", err)
	}
}

// namespace is the identity of a network namespace.
func namespace(t *testing.T, path string) string {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("net:[%d]", st.Ino)
}

// containers counts the containers of an alloc.
func (n *node) containers(alloc string) int {
	n.t.Helper()
	return len(strings.Fields(n.cli("ps", "-aq", "--filter", "label=io.drover.alloc_id="+alloc)))
}

func TestATaskIsInTheNetworkOfItsGroup(t *testing.T) {
	n := newNode(t, nil)
	tc := n.task(with(script(`readlink /proc/self/ns/net; hostname; cat /etc/resolv.conf /etc/hosts`), map[string]any{"ports": []any{"http"}, "extra_hosts": []any{"db:10.1.2.3"}}))
	tc.Network = n.network(tc.AllocID)
	t.Cleanup(func() { n.destroyNetwork(tc.AllocID, nil) })
	tc.Network.Address = "172.26.64.9"
	tc.DNS = &driver.DNSConfig{Servers: []string{"10.0.0.53"}, Searches: []string{"example.test"}}
	tc.Ports = []driver.Port{{Label: "http", Value: 28081, To: 80, HostIP: "127.0.0.1"}}
	want := namespace(t, tc.Network.Path) + "\nshop\nsearch example.test\nnameserver 10.0.0.53\n127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n172.26.64.9 shop\n10.1.2.3 db\n"
	if got := n.output(tc); got != want {
		t.Errorf("the task sees\n%swant\n%s", got, want)
	}
	if got := n.inspect(tc, "{{.HostConfig.PortBindings}}"); got != "map[]" {
		t.Errorf("the daemon publishes %s, too", got)
	}
	tasks, err := n.d.ListTasks(limit(t))
	if err != nil || len(tasks) > 0 && tasks[0].TaskID != tc.ID || len(tasks) > 1 {
		t.Errorf("listed as tasks: %+v, %v", tasks, err)
	}
}

func TestANetworkIsLeftAloneWhileATaskRunsInItAndThenNothingIsLeft(t *testing.T) {
	n := newNode(t, nil)
	tc := n.task(script("exec sleep 100000"))
	tc.Network = n.network(tc.AllocID)
	if _, _, err := n.d.StartTask(limit(t), tc); err != nil {
		t.Fatal(err)
	}
	if err := n.d.DestroyNetwork(limit(t), tc.AllocID, tc.Network); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), tc.ID) {
		t.Errorf("a network in use: %v", err)
	}
	if err := n.d.DestroyTask(limit(t), tc.Ref(), true); err != nil {
		t.Fatal(err)
	}
	n.destroyNetwork(tc.AllocID, nil)
	if left := n.containers(tc.AllocID); left != 0 {
		t.Errorf("%d containers are left", left)
	}
	if _, err := os.Stat(n.dir + "/networks/" + tc.AllocID); !os.IsNotExist(err) {
		t.Errorf("files are left: %v", err)
	}
}

func TestASandboxThatDiedIsStartedAgainAndOneThatWasNeverStartedToo(t *testing.T) {
	n := newNode(t, nil)
	alloc := newTask(t, n.d, nil).AllocID
	first := n.network(alloc)
	t.Cleanup(func() { n.destroyNetwork(alloc, nil) })
	id := first.Labels["docker_sandbox_container_id"]
	before := namespace(t, first.Path)
	n.cli("kill", id)
	if namespace(t, first.Path) != before {
		t.Error("the namespace is gone with the container, and tasks may be in it")
	}
	again := n.network(alloc)
	if again.Labels["docker_sandbox_container_id"] != id || again.Path != first.Path || namespace(t, again.Path) == before {
		t.Errorf("another container keeps it, or the old namespace is still there: %+v", again)
	}
	before = namespace(t, again.Path)
	n.cli("rm", "-f", id)
	n.cli("create", "--name", "drover_network_"+alloc, "--network", "none", "--label", "io.drover.network="+alloc,
		"--label", "io.drover.owner="+n.owner(), dockertest.BusyBox, "sleep", "100000") // as a kill in the middle leaves it
	third := n.network(alloc)
	pid := n.cli("inspect", "-f", "{{.State.Pid}}", third.Labels["docker_sandbox_container_id"])
	if now := namespace(t, third.Path); now == before || now != namespace(t, "/proc/"+pid+"/ns/net") {
		t.Errorf("%s is the namespace %s, which is not the new container's", third.Path, now)
	}
}

// owner is the owner's label of the node's containers.
func (n *node) owner() string {
	n.t.Helper()
	body, err := os.ReadFile(n.dir + "/owner")
	if err != nil {
		n.t.Fatal(err)
	}
	return strings.TrimSpace(string(body))
}

// image makes an image with other settings than BusyBox.
func (n *node) image(name, change string) string {
	n.t.Helper()
	id := n.cli("create", dockertest.BusyBox)
	n.cli("commit", "--change", change, id, name)
	n.cli("rm", id)
	return name
}

func TestANetworkThatCannotBeMadeLeavesNothingAndSaysWhy(t *testing.T) {
	n := newNode(t, nil)
	n.configure(with(n.config, map[string]any{"infra_image": n.image("infra:broken", `ENTRYPOINT ["/nothing"]`)}))
	alloc := newTask(t, n.d, nil).AllocID
	if _, err := n.d.CreateNetwork(limit(t), driver.NetworkRequest{AllocID: alloc}); err == nil || !strings.Contains(err.Error(), "infra:broken") {
		t.Errorf("an infra_image that cannot start: %v", err)
	}
	if left := n.containers(alloc); left != 0 {
		t.Errorf("%d containers are left", left)
	}
	n.cli("run", "-d", "--name", "drover_network_"+alloc, dockertest.BusyBox, "sleep", "100000")
	defer n.cli("rm", "-f", "drover_network_"+alloc)
	if _, err := n.d.CreateNetwork(limit(t), driver.NetworkRequest{AllocID: alloc}); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "does not belong") {
		t.Errorf("a name that a stranger has: %v", err)
	}
	if _, err := n.d.CreateNetwork(limit(t), driver.NetworkRequest{AllocID: "../x"}); !errdefs.IsInvalidArgument(err) {
		t.Errorf("an id that is a path: %v", err)
	}
}

func TestTheInfraImageKeepsNetworksAndIsFetched(t *testing.T) {
	n := newNode(t, nil)
	n.configure(with(n.config, map[string]any{"infra_image": n.image("infra:sleeps", `CMD ["sleep", "100000"]`)}))
	alloc := newTask(t, n.d, nil).AllocID
	defer n.destroyNetwork(alloc, nil)
	made := n.network(alloc)
	if got := n.cli("inspect", "-f", "{{.Config.Image}}", made.Labels["docker_sandbox_container_id"]); got != "infra:sleeps" {
		t.Errorf("the network is kept by image %s", got)
	}
	r := dockertest.NewRegistry(t)
	image, err := dockertest.NewImageOf("infra", "sleep", "100000")
	if err != nil {
		t.Fatal(err)
	}
	n.configure(with(n.config, map[string]any{"infra_image": r.Push(t, "infra", "1", image)}))
	alloc = newTask(t, n.d, nil).AllocID
	defer n.destroyNetwork(alloc, nil)
	if made := n.network(alloc); r.Pulls() != 1 {
		t.Errorf("%d pulls for the network %v", r.Pulls(), made)
	}
}

func TestWhatTheNetworkOfAGroupDecidesIsRefusedInATask(t *testing.T) {
	n := newNode(t, nil)
	for name, value := range map[string]any{
		"network_mode": "host", "hostname": "web", "port_map": []any{map[string]any{"http": 80}}, "mac_address": "02:42:ac:11:00:02", "extra_hosts": []any{"gate:host-gateway"},
	} {
		config := script("true")
		maps.Copy(config, map[string]any{name: value})
		tc := n.task(config)
		tc.Ports = []driver.Port{{Label: "http", Value: 28081}}
		tc.Network = &driver.NetworkIsolation{Mode: driver.NetworkGroup, Path: "/x", Labels: map[string]string{"docker_sandbox_container_id": "abc"}}
		if _, _, err := n.d.StartTask(limit(t), tc); !errdefs.IsInvalidArgument(err) || !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
