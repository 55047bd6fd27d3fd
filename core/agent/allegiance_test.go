// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
)

// began is a cluster whose only leader has begun at an index.
func began(id string, index uint64) *model.Cluster {
	var c *model.Cluster
	return c.Begin(id, model.ClusterTerm{ID: id + "-1", Index: index, After: index - 1})
}

func (b *bed) standing() (out rpc.NodeCluster) {
	b.t.Helper()
	b.call(rpc.MethodNodeCluster, &out)
	return out
}

func (b *bed) call(method string, answer any) {
	b.t.Helper()
	err := b.agent.Call(b.t.Context(), rpc.Call{Method: method}, nil, func(body []byte) error { return json.Unmarshal(body, answer) })
	if err != nil {
		b.t.Fatal(err)
	}
}

// again restarts the agent.
func (b *bed) again() {
	b.t.Helper()
	b.close()
	b.start()
}

func TestServersOfAnotherClusterAreRefusedUntilAnOperatorAgrees(t *testing.T) {
	b := newBedWith(t, nil)
	b.servers.set(func() { b.servers.cluster = began("old", 5) })
	b.servers.assign(newAlloc("a1", newTask("web")))
	b.status("a1", "running")
	b.eventually("the node belongs to the cluster", func() bool { return b.standing().ClusterID == "old" })
	registered := func() (n int) {
		b.servers.with(func() { n = len(b.servers.nodes) })
		return n
	}
	before := 0
	for _, restarted := range []bool{false, true} {
		b.servers.set(func() {
			b.servers.cluster = began("new", 5)
			delete(b.servers.allocs, "a1")
		})
		if restarted {
			b.again()
		}
		<-b.agent.Stranger()
		b.eventually("the servers are refused", func() bool { return b.standing().Standing == rpc.ClusterRefused })
		if restarted && registered() != before {
			t.Error("it registered with another cluster")
		}
		before = registered()
		if b.driver.running() != 1 {
			t.Fatal("its task was stopped")
		}
		b.eventually("it says why, and the cure", func() bool {
			why := b.agent.Session().Lost
			return why != nil && strings.Contains(why.Error(), "drover node trust")
		})
	}
	var got rpc.NodeCluster
	b.call(rpc.MethodTrust, &got)
	b.eventually("the task is stopped", func() bool { return b.driver.running() == 0 })
	if now := b.standing(); now.ClusterID != "new" || now.Standing != rpc.ClusterBelieved {
		t.Errorf("it is now %+v", now)
	}
}

func TestServersThatHaveLostWhatTheyToldStopNothingByItsAbsence(t *testing.T) {
	b := newBedWith(t, nil)
	b.servers.set(func() { b.servers.cluster = began("c", 5) })
	b.servers.assign(newAlloc("a1", newTask("web")))
	b.status("a1", "running")
	var copied uint64
	b.servers.with(func() { copied = b.servers.index })
	b.servers.assign(newAlloc("a2", newTask("db")))
	b.status("a2", "running")
	var right *model.Cluster
	var all map[string]*model.Allocation
	b.close()
	b.servers.with(func() { // a copy from before a2, which has grown beyond what the node has seen
		right, all = b.servers.cluster, maps.Clone(b.servers.allocs)
		b.servers.cluster = right.Begin("", model.ClusterTerm{ID: "c-2", Index: copied + 1, After: copied})
		b.servers.index += 100
		delete(b.servers.allocs, "a2")
	})
	for range 2 { // however often it starts
		b.start()
		b.eventually("the node says so", func() bool {
			return b.standing().Standing == rpc.ClusterDoubted && strings.Contains(b.servers.events(), "an older copy of their data was put back")
		})
		b.servers.set(func() {}) // a further full set changes nothing
		b.servers.assign(newAlloc("a3", newTask("new")))
		b.status("a3", "running")
		if b.driver.running() < 3 {
			t.Fatal("a task was stopped")
		}
		b.servers.set(func() { b.servers.told = nil })
		b.close()
	}
	b.servers.with(func() { b.servers.cluster, b.servers.allocs = right, all })
	b.start()
	b.eventually("the right data is believed, and ends what it does not know", func() bool {
		return b.standing().Standing == rpc.ClusterBelieved && b.driver.running() == 2
	})
}

func TestAnOperatorHasANodeBelieveServersThatHaveLostSomething(t *testing.T) {
	b := newBedWith(t, nil)
	b.servers.set(func() { b.servers.cluster = began("c", 5) })
	b.servers.assign(newAlloc("a1", newTask("web")))
	b.status("a1", "running")
	b.servers.set(func() {
		b.servers.index, b.servers.cluster = 2, began("c", 2).Begin("", model.ClusterTerm{ID: "c-2", Index: 2, After: 1})
	})
	b.again()
	b.eventually("the node doubts", func() bool { return b.standing().Standing == rpc.ClusterDoubted })
	b.servers.set(func() { delete(b.servers.allocs, "a1") })
	b.servers.assign(newAlloc("a2", newTask("db")))
	b.status("a2", "running") // the set without a1 was heard
	if b.driver.running() != 2 {
		t.Fatal("its task was stopped")
	}
	var got rpc.NodeCluster
	b.call(rpc.MethodTrust, &got)
	b.eventually("the task is stopped", func() bool { return b.driver.running() == 1 && b.standing().Standing == rpc.ClusterBelieved })
}
