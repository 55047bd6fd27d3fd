// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drivercheck

import (
	"context"
	"fmt"
	"os"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
)

// networkChecks are the rules of driver.Networker.
var networkChecks = []Check{
	{"network-again", "a network that is created again, also by a new process, is the same one, and one that is destroyed twice or was never created is no error", has(driver.FeatureNetworks), checkNetworkAgain},
	{"network-lost", "a network whose creation was not answered is destroyed by the id of its alloc", has(driver.FeatureNetworks), checkNetworkLost},
}

// allocID is an id of an alloc that no other check uses.
func allocID() string {
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(os.Getpid()), uint64(time.Now().UnixNano()+sequence.Add(1))&0xffffffffffff)
}

// network creates the network of an alloc. The returned function destroys it, whether or
// not the check has failed.
func (b *bench) network(alloc string) (made *driver.NetworkIsolation, end func()) {
	end = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), 30*time.Second)
		defer cancel()
		if err := b.d.(driver.Networker).DestroyNetwork(ctx, alloc, made); err != nil {
			b.t.Errorf("DestroyNetwork at the end: %v", err)
		}
	}
	made, err := b.d.(driver.Networker).CreateNetwork(b.ctx, driver.NetworkRequest{AllocID: alloc, Hostname: "drivertest"})
	if err != nil {
		b.t.Fatalf("CreateNetwork: %v", err)
	}
	if made == nil || made.Path == "" || made.Mode != driver.NetworkGroup {
		b.t.Fatalf("CreateNetwork returned %+v, want a path and mode %q", made, driver.NetworkGroup)
	}
	return made, end
}

// exists reports whether the namespace of the network is there.
func exists(n *driver.NetworkIsolation) bool {
	_, err := os.Stat(n.Path)
	return err == nil
}

func checkNetworkAgain(b *bench) {
	alloc := allocID()
	first, end := b.network(alloc)
	defer end()
	if !exists(first) {
		b.t.Errorf("the network should be at %s, and nothing is there", first.Path)
	}
	if b.subject.Foreign {
		return // Nomad's protocol does not define a repeated call
	}
	if again, _ := b.network(alloc); again.Path != first.Path {
		b.t.Errorf("a second call made another network, %s and not %s", again.Path, first.Path)
	}
	b.reborn()
	if again, _ := b.network(alloc); again.Path != first.Path {
		b.t.Errorf("a new process made another network, %s and not %s", again.Path, first.Path)
	}
	n := b.d.(driver.Networker)
	for _, what := range []string{"once", "twice"} {
		if err := n.DestroyNetwork(b.ctx, alloc, first); err != nil {
			b.t.Errorf("a network that is destroyed %s: %v", what, err)
		}
	}
	if exists(first) {
		b.t.Errorf("the network was destroyed, and %s is still there", first.Path)
	}
	if err := n.DestroyNetwork(b.ctx, allocID(), nil); err != nil {
		b.t.Errorf("the network of an alloc that never had one: %v", err)
	}
}

func checkNetworkLost(b *bench) {
	alloc := allocID()
	made, end := b.network(alloc)
	defer end()
	b.reborn()
	if err := b.d.(driver.Networker).DestroyNetwork(b.ctx, alloc, nil); err != nil {
		b.t.Fatalf("DestroyNetwork by a new process that is told only the alloc: %v", err)
	}
	if exists(made) {
		b.t.Errorf("the network was destroyed, and %s is still there", made.Path)
	}
}
