// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkcheck

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
	"github.com/drover-project/drover/sdk/errdefs"
	network "github.com/drover-project/drover/sdk/network/v1"
)

var checks = []Check{
	{"info", "info is complete, always the same, and its schema is sound", checkInfo},
	{"config-again", "the same config may be set again at any time", checkConfigAgain},
	{"fingerprint", "the first fingerprint comes at once, others when something changes, and the stream ends with its context and not before", checkFingerprint},
	{"create", "a network has a namespace, an interface and addresses, is listed, and is the same when it is asked for again", checkCreate},
	{"unknown-network", "an unknown network is refused as not found, and nothing is left of the attempt after Destroy", checkUnknown},
	{"destroy", "a network can be destroyed again, and though there was none; afterwards nothing is listed", checkDestroy},
	{"addresses", "two allocs do not have the same address, and that of a destroyed network can be had again", checkAddresses},
	{"fresh-process", "another process knows the networks after the first was killed, and can destroy them", checkDeath},
	{"interrupted", "a Create that is given up leaves nothing that Destroy does not remove", checkInterrupted},
}

func checkInfo(b *bench) {
	info := b.n.Info()
	conformance.CheckInfo(b.t, info.Name, info.ConfigSchema, info, b.n.Info())
}

func checkConfigAgain(b *bench) {
	if err := b.n.SetConfig(b.ctx, b.config); err != nil {
		b.t.Errorf("SetConfig a second time: %v", err)
	}
}

func checkFingerprint(b *bench) {
	if f := b.print(); !slices.IsSorted(f.Networks) || slices.Contains(f.Networks, "") {
		b.t.Errorf("the networks %q are not in order, or one has no name", f.Networks)
	}
	conformance.CheckFingerprints(b.t, b.n.Fingerprint, false)
}

// request is for the n-th of some allocs.
func request(b *bench, n int) network.Request {
	return network.Request{
		AllocID: fmt.Sprintf("4f0c3a1e-0000-4000-8000-%012d", n), Network: cmp.Or(b.subject.Network, b.print().Networks[0]),
		Namespace: "default", JobID: "check", TaskGroup: "check",
		Ports: []network.Port{{Label: "check", HostPort: 64000 + n, Port: 8080}},
	}
}

func create(b *bench, r network.Request) *network.Attachment {
	a, err := b.n.Create(b.ctx, r)
	if err != nil {
		b.t.Fatalf("Create(%+v): %v", r, err)
	}
	return a
}

// destroy destroys the network, even after the check has failed.
func destroy(b *bench, r network.Request) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), time.Minute)
	defer cancel()
	if err := b.n.Destroy(ctx, r.AllocID); err != nil {
		b.t.Errorf("Destroy(%q): %v", r.AllocID, err)
	}
}

func listed(b *bench, r network.Request) bool {
	ids, err := b.n.List(b.ctx)
	if err != nil {
		b.t.Fatalf("List: %v", err)
	}
	return slices.Contains(ids, r.AllocID)
}

func checkCreate(b *bench) {
	r := request(b, 1)
	defer destroy(b, r)
	a := create(b, r)
	if !filepath.IsAbs(a.Path) || a.Interface == "" || len(a.Addresses) == 0 {
		b.t.Fatalf("the network %+v has no namespace, interface or address", a)
	}
	for _, x := range a.Addresses {
		if _, err := netip.ParsePrefix(x.Prefix); err != nil {
			b.t.Errorf("the address %q: %v", x.Prefix, err)
		}
		if _, err := netip.ParseAddr(x.Gateway); x.Gateway != "" && err != nil {
			b.t.Errorf("the gateway %q: %v", x.Gateway, err)
		}
	}
	if !reflect.DeepEqual(a.Ports, r.Ports) {
		b.t.Errorf("the ports are %+v, want %+v", a.Ports, r.Ports)
	}
	if !listed(b, r) {
		b.t.Errorf("the network is not listed")
	}
	if again := create(b, r); !reflect.DeepEqual(again, a) {
		b.t.Errorf("Create answers %+v and then %+v", a, again)
	}
	if seen, err := b.n.Inspect(b.ctx, r.AllocID); err != nil || !reflect.DeepEqual(seen, a) {
		b.t.Errorf("Inspect: %+v, %v, want %+v", seen, err, a)
	}
}

func checkUnknown(b *bench) {
	r := request(b, 1)
	r.Network = "no such network"
	if _, err := b.n.Create(b.ctx, r); !errdefs.IsNotFound(err) {
		b.t.Errorf("Create: %v, want NotFound", err)
	}
	destroy(b, r)
	if listed(b, r) {
		b.t.Errorf("the network is listed")
	}
}

func checkDestroy(b *bench) {
	r := request(b, 1)
	destroy(b, r)
	create(b, r)
	destroy(b, r)
	destroy(b, r)
	if listed(b, r) {
		b.t.Errorf("the network is listed after it was destroyed")
	}
	if _, err := b.n.Inspect(b.ctx, r.AllocID); !errdefs.IsNotFound(err) {
		b.t.Errorf("Inspect of a destroyed network: %v, want NotFound", err)
	}
}

func checkAddresses(b *bench) {
	one, two := request(b, 1), request(b, 2)
	defer destroy(b, one)
	defer destroy(b, two)
	a, c := create(b, one), create(b, two)
	if a.Path == c.Path || a.Addresses[0].Prefix == c.Addresses[0].Prefix {
		b.t.Errorf("two allocs have the same namespace or address: %+v and %+v", a, c)
	}
	destroy(b, one)
	create(b, one)
}

func checkDeath(b *bench) {
	r := request(b, 1)
	a := create(b, r)
	b.die()
	b.open()
	defer destroy(b, r)
	if !listed(b, r) {
		b.t.Errorf("the next process does not list the network")
	}
	if seen, err := b.n.Inspect(b.ctx, r.AllocID); err != nil || !reflect.DeepEqual(seen, a) {
		b.t.Errorf("Inspect by the next process: %+v, %v, want %+v", seen, err, a)
	}
	if again := create(b, r); !reflect.DeepEqual(again, a) {
		b.t.Errorf("Create by the next process answers %+v, want %+v", again, a)
	}
	b.die()
	b.open()
	destroy(b, r)
	if listed(b, r) {
		b.t.Errorf("the network is listed after another process has destroyed it")
	}
}

func checkInterrupted(b *bench) {
	r := request(b, 1)
	for _, after := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(b.ctx, after)
		_, _ = b.n.Create(ctx, r) // it may have succeeded
		cancel()
		destroy(b, r)
		if listed(b, r) {
			b.t.Fatalf("Create was given up after %s, and the network is listed after Destroy", after)
		}
	}
}
