// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package filenetwork is an example of a network plugin that makes nothing on the machine:
// the network of an alloc is a file of a directory, so that a test can tell the record of a
// network from the network itself. Tests of hosts use it too.
package filenetwork

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/drover-project/drover/sdk/errdefs"
	network "github.com/drover-project/drover/sdk/network/v1"
)

// Name is the name of the only network.
const Name = "file"

// Network keeps networks in a directory.
type Network struct {
	name, dir string
	mu        sync.Mutex
}

var _ network.Network = (*Network)(nil)

// New returns a plugin with the given name, whose networks are in dir.
func New(name, dir string) *Network { return &Network{name: name, dir: dir} }

// Info implements network.Network.
func (n *Network) Info() network.Info { return network.Info{Name: n.name} }

// SetConfig implements network.Network.
func (n *Network) SetConfig(context.Context, []byte) error { return nil }

// Fingerprint implements network.Network.
func (n *Network) Fingerprint(ctx context.Context) (<-chan network.Fingerprint, error) {
	out := make(chan network.Fingerprint, 1)
	out <- network.Fingerprint{Networks: []string{Name}}
	context.AfterFunc(ctx, func() { close(out) })
	return out, nil
}

// Create implements network.Network.
func (n *Network) Create(ctx context.Context, r network.Request) (*network.Attachment, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r.Network != Name {
		return nil, errdefs.NotFoundf("there is no network %q; use %q", r.Network, Name)
	}
	ids, err := n.list()
	if err != nil {
		return nil, err
	}
	a, err := n.read(r.AllocID)
	switch {
	case errdefs.IsNotFound(err):
		a = &network.Attachment{Path: n.file(r.AllocID), Interface: "file0", Addresses: []network.Address{{Prefix: n.free(ids)}}}
	case err != nil:
		return nil, err
	}
	a.Ports = r.Ports
	body, err := json.Marshal(a)
	if err != nil {
		return nil, errdefs.Internalf("encode a network: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, errdefs.Canceledf("make a network: %w", err)
	}
	if err := os.WriteFile(n.file(r.AllocID), body, 0o600); err != nil {
		return nil, fmt.Errorf("keep a network: %w", err)
	}
	return a, nil
}

// free returns an address that no network has.
func (n *Network) free(ids []string) string {
	var taken []string
	for _, id := range ids {
		if a, err := n.read(id); err == nil {
			taken = append(taken, a.Addresses[0].Prefix)
		}
	}
	for i := 1; ; i++ {
		if p := fmt.Sprintf("192.0.2.%d/24", i); !slices.Contains(taken, p) {
			return p
		}
	}
}

// Inspect implements network.Network.
func (n *Network) Inspect(_ context.Context, allocID string) (*network.Attachment, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.read(allocID)
}

func (n *Network) read(allocID string) (*network.Attachment, error) {
	body, err := os.ReadFile(n.file(allocID))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errdefs.NotFoundf("alloc %s has no network", allocID)
	case err != nil:
		return nil, fmt.Errorf("read a network: %w", err)
	}
	a := &network.Attachment{}
	if err := json.Unmarshal(body, a); err != nil {
		return nil, errdefs.FailedPreconditionf("the network of alloc %s is damaged: %w", allocID, err)
	}
	return a, nil
}

// Destroy implements network.Network.
func (n *Network) Destroy(_ context.Context, allocID string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := os.Remove(n.file(allocID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a network: %w", err)
	}
	return nil
}

// List implements network.Network.
func (n *Network) List(context.Context) ([]string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.list()
}

func (n *Network) list() ([]string, error) {
	entries, err := os.ReadDir(n.dir)
	if err != nil {
		return nil, fmt.Errorf("list the networks: %w", err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out, nil
}

func (n *Network) file(allocID string) string { return filepath.Join(n.dir, filepath.Base(allocID)) }
