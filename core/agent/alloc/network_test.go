// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/pluginhost/network"
)

// askedNetworks keeps what the node asks of network plugins.
type askedNetworks struct {
	got  network.Request
	path string // of the namespace

	addresses []network.Address
}

func (n *askedNetworks) CreateNetwork(_ context.Context, r network.Request) (*network.Attachment, error) {
	n.got = r
	return &network.Attachment{Path: cmp.Or(n.path, "/run/netns/x"), Interface: "eth0", Addresses: n.addresses}, nil
}

func (*askedNetworks) DestroyNetwork(context.Context, string, string) error { return nil }

func TestReferencesInTheNetworkBlockOfAGroupAreReplaced(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		nets := &askedNetworks{}
		b.cfg.Networks = nets
		b.cfg.Node = func() *model.Node {
			return &model.Node{ID: "n1", Name: "node", NodePool: "edge", Attributes: map[string]string{"unique.network.ip-address": "10.0.0.7"}, Meta: map[string]string{"net": "default"}}
		}
		a := newAlloc(newTask("web"))
		a.Job.TaskGroups[0].Networks = []*model.NetworkResource{{
			Mode: "cni/lan", Hostname: "web-${NOMAD_ALLOC_INDEX}", DynamicPorts: []model.Port{{Label: "http", HostNetwork: "${meta.net}"}},
			DNS: &model.DNSConfig{Servers: []string{"${attr.unique.network.ip-address}"}, Searches: []string{"${node.pool}.example"}, Options: []string{"ndots:2"}},
			CNI: &model.CNIConfig{Args: map[string]string{"Pool": "${node.pool}", "Dir": "${NOMAD_ALLOC_DIR}/x"}},
		}}
		a.AllocatedResources = &model.AllocatedResources{Shared: model.AllocatedSharedResources{
			Networks: []*model.NetworkResource{{Mode: "cni/lan", DynamicPorts: []model.Port{{Label: "http", Value: 20000, HostNetwork: "default"}}}},
			Ports:    []model.AllocatedPortMapping{{Label: "http", Value: 20000, HostIP: "10.0.0.7"}},
		}}
		b.run(a)
		synctest.Wait()
		want := network.Request{
			AllocID: "a1", Network: "cni/lan", Namespace: "default", JobID: "j", TaskGroup: "g", Hostname: "web-0",
			DNS:   &network.DNS{Servers: []string{"10.0.0.7"}, Searches: []string{"edge.example"}, Options: []string{"ndots:2"}},
			Args:  map[string]string{"Pool": "edge", "Dir": "/alloc/x"},
			Ports: []network.Port{{Label: "http", HostIP: "10.0.0.7", HostPort: 20000, Port: 20000}, {Label: "http", HostIP: "127.0.0.1", HostPort: 20000, Port: 20000}},
		}
		if !reflect.DeepEqual(nets.got, want) {
			t.Errorf("asked for %+v with DNS %+v\nwant %+v with %+v", nets.got, nets.got.DNS, want, want.DNS)
		}
		if len(b.driver.configs) != 1 || fmt.Sprint(b.driver.configs[0].DNS.Servers, b.driver.configs[0].DNS.Searches) != "[10.0.0.7] [edge.example]" {
			t.Errorf("the driver got %+v", b.driver.configs)
		}
	})
}

// nodeDNS is a DNS server of the node.
type nodeDNS struct{}

func (nodeDNS) Answers(gateway netip.Addr) bool { return gateway.Is4() }

func (nodeDNS) Search() (domains, options []string) {
	return []string{"corp.example"}, []string{"ndots:2"}
}

func TestTasksThatAskTheNodesServerFindShortNamesAsTheMachineDoes(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.cfg.Networks = &askedNetworks{addresses: []network.Address{{Prefix: "172.26.64.2/20", Gateway: "172.26.64.1"}, {Prefix: "fd00::2/64", Gateway: "fd00::1"}}}
		b.cfg.Resolver = nodeDNS{}
		a := newAlloc(newTask("web"))
		a.Job.TaskGroups[0].Networks = []*model.NetworkResource{{Mode: "bridge"}}
		a.AllocatedResources = &model.AllocatedResources{Shared: model.AllocatedSharedResources{Networks: a.Job.TaskGroups[0].Networks}}
		b.run(a)
		synctest.Wait()
		want := &driver.DNSConfig{Servers: []string{"172.26.64.1"}, Searches: []string{"corp.example"}, Options: []string{"ndots:2"}}
		if len(b.driver.configs) != 1 || !reflect.DeepEqual(b.driver.configs[0].DNS, want) {
			t.Errorf("the driver got %+v", b.driver.configs)
		}
	})
}

func TestTasksThatRunInANamespaceThatWasReplacedAreRestarted(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		dir := t.TempDir()
		namespace := func(name string) string {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}
		nets := &askedNetworks{path: namespace("one")}
		b.cfg.Networks = nets
		a := newAlloc(newTask("web"), newTask("side"))
		for _, t := range a.Job.TaskGroups[0].Tasks {
			t.RestartPolicy = &model.RestartPolicy{Mode: "fail", Attempts: 2, Interval: time.Hour, Delay: time.Second}
		}
		a.Job.TaskGroups[0].Networks = []*model.NetworkResource{{Mode: "bridge"}}
		b.run(a)
		synctest.Wait()
		b.driver.end(t, "web", 1) // the namespace is the same
		time.Sleep(time.Minute)
		synctest.Wait()
		const why = "The group's network was lost and made again"
		if got := b.events("side"); strings.Contains(got, why) {
			t.Fatalf("side was restarted: %s", got)
		}
		nets.path = namespace("two")
		b.driver.end(t, "web", 1)
		time.Sleep(time.Minute)
		synctest.Wait()
		b.hasEvent("side", why)
		if got := b.events("web"); strings.Contains(got, why) {
			t.Errorf("web is in the new namespace already: %s", got)
		}
		if got := b.driver.running(); strings.Count(got, "web") != 1 || strings.Count(got, "side") != 1 {
			t.Errorf("running: %s", got)
		}
		for _, c := range b.driver.configs[len(b.driver.configs)-2:] {
			if c.Network.Path != nets.path {
				t.Errorf("task %s was started in %s", c.Name, c.Network.Path)
			}
		}
	})
}
