// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package nemesis_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// cluster is three servers and their nodes, each on a machine of its own.
type cluster struct {
	t       *testing.T
	network *harness.Network
	servers []*harness.Agent
	nodes   []*harness.Agent
}

// newCluster starts three servers and nodes. more is added to the configuration of each
// agent, of which it gets the name.
func newCluster(t *testing.T, nodes int, more func(name string) string) *cluster {
	t.Helper()
	return prepareCluster(t, nodes, more, func(*harness.Agent) {})
}

// prepareCluster does the same, with something to do to each node before it starts.
func prepareCluster(t *testing.T, nodes int, more func(name string) string, prepare func(*harness.Agent)) *cluster {
	t.Helper()
	harness.TakeSlot(t)
	c := &cluster{t: t, network: harness.NewNetwork(t)}
	if more == nil {
		more = func(string) string { return "" }
	}
	var key [32]byte
	rand.Read(key[:])
	var joins []string
	for i := range 3 {
		joins = append(joins, fmt.Sprintf("%s%d", c.network.Subnet, i+2))
	}
	config := harness.ServerOf(base64.StdEncoding.EncodeToString(key[:]), joins...)
	for i := range 3 {
		name := fmt.Sprintf("s%d", i+1)
		a := c.network.Machine(name, config+"\n"+more(name))
		onSmallDisk(a)
		c.servers = append(c.servers, a)
	}
	for i := range nodes {
		name := fmt.Sprintf("n%d", i+1)
		a := c.network.Machine(name, harness.NodeOf(c.servers...)+more(name))
		prepare(a)
		c.nodes = append(c.nodes, a)
	}
	for _, a := range append(slices.Clone(c.servers), c.nodes...) {
		a.Launch()
	}
	c.working()
	return c
}

// leader waits until the servers that run name the same leader, and returns it.
func (c *cluster) leader(running ...*harness.Agent) *harness.Agent {
	c.t.Helper()
	if running == nil {
		running = c.servers
	}
	var leader *harness.Agent
	running[0].Eventually(harness.Patience, "the servers name one leader", func() bool {
		names := map[string]bool{}
		for _, a := range running {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			address, err := a.Leader(ctx)
			cancel()
			if err != nil {
				return false
			}
			names[address] = true
		}
		for _, a := range running {
			if len(names) == 1 && names[a.RPCAddress()] {
				leader = a
				return true
			}
		}
		return false
	})
	return leader
}

func without(all []*harness.Agent, gone *harness.Agent) (out []*harness.Agent) {
	for _, a := range all {
		if a != gone {
			out = append(out, a)
		}
	}
	return out
}

// working heals everything, starts what does not run, and waits until every server
// accepts a write.
func (c *cluster) working() {
	c.t.Helper()
	all := append(slices.Clone(c.servers), c.nodes...)
	c.network.Heal(all...)
	for _, a := range all {
		if !a.Alive() {
			a.Launch()
		}
		a.Signal(syscall.SIGCONT)
	}
	for _, a := range c.servers {
		a.Eventually(harness.Patience, "every server accepts writes", func() bool {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			return a.ApplyNamespace(ctx, &model.Namespace{Name: "working"}) == nil
		})
	}
}

// equal waits until the servers have applied the same log, and checks that their states are
// equal then.
func (c *cluster) equal() {
	c.t.Helper()
	c.servers[0].Eventually(harness.Patience, "the servers have states at one index", func() bool {
		indexes, digests := map[uint64]bool{}, map[string]bool{}
		for _, a := range c.servers {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			d, err := a.StateDigest(ctx)
			cancel()
			if err != nil {
				return false
			}
			indexes[d.Index], digests[d.Digest] = true, true
		}
		if len(indexes) != 1 {
			return false
		}
		if len(digests) != 1 {
			c.t.Errorf("after what has happened last, states differ at index %v: %v; %s", indexes, digests, c.keepStates())
		}
		return true
	})
}

// keepStates writes the state of each server to a file, for whoever looks for the difference.
func (c *cluster) keepStates() string {
	var files []string
	for i, a := range c.servers {
		answer, err := a.SaveSnapshot(a.Context(), true)
		if err != nil {
			return err.Error()
		}
		name := filepath.Join(os.TempDir(), fmt.Sprintf("drover-nemesis-state-%d", i+1))
		f, err := os.Create(name)
		if err == nil {
			_, err = consensus.ExtractArchive(answer.Body, f)
		}
		if err != nil {
			return err.Error()
		}
		files = append(files, name)
		_, _ = answer.Body.Close(), f.Close()
	}
	return "the states are in " + strings.Join(files, " ")
}
