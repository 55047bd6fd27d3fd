// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package membership

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/serf/serf"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Tags by which servers are known. Tools of the reference read them.
const (
	tagRole       = "role"
	tagRegion     = "region"
	tagDatacenter = "dc"
	tagID         = "id"
	tagHost       = "rpc_addr"
	tagPort       = "port"
	tagBuild      = "build"
	tagExpect     = "expect"
	tagCluster    = "cluster"

	roleServer = "nomad"
)

// Statuses of a member.
const (
	Alive   = "alive"
	Leaving = "leaving"
	Left    = "left"
	Failed  = "failed"
)

// Member is a server as the others know it.
type Member struct {
	// Name is the server's name with its region, "a.global".
	Name string
	// ID is the server's id in raft.
	ID                 string
	Region, Datacenter string
	// Address is the IP address of the gossip, and Port its port.
	Address string
	Port    uint16
	// RPC is the address of the rpc port.
	RPC     string
	Version string
	// Expect is the number of servers with which a new cluster begins; 0: the server
	// only joins.
	Expect int
	// Cluster is the id of the cluster, "" for a server that has none yet.
	Cluster string
	Status  string
	Tags    map[string]string

	ProtocolMin, ProtocolMax, ProtocolCur uint8
	DelegateMin, DelegateMax, DelegateCur uint8
}

// Membership is this server's view of the servers.
type Membership struct {
	cfg    Config
	serf   *serf.Serf
	logger hclog.Logger
	log    *quiet // what the library logs with
	events chan serf.Event
	stop   chan struct{} // closed to end watch
	done   chan struct{} // closed when watch has ended
	ready  chan struct{} // closed when the library can answer questions
	failed chan error    // capacity 1
	// cluster is read while the library holds locks, so mu does not protect it.
	cluster atomic.Pointer[string]

	// tagging is held while tags are announced, which waits for other servers. It protects tags.
	tagging sync.Mutex
	tags    map[string]string

	mu      sync.Mutex
	changed chan struct{} // closed at the next change
	closing bool

	pruned time.Duration // how long the library takes at most to remove a server
}

// pruneSlack is added to the time that the library lets pass before it removes a server.
const pruneSlack = 2 * time.Second

// Start begins to gossip. Join finds other servers.
func Start(cfg Config) (*Membership, error) {
	m := &Membership{
		cfg: cfg, logger: cfg.Logger.Named("membership"), events: make(chan serf.Event, 256), done: make(chan struct{}),
		stop: make(chan struct{}), ready: make(chan struct{}), failed: make(chan error, 1), changed: make(chan struct{}),
	}
	m.cfg.Logger, m.log = m.logger, newQuiet(m.logger)
	conf, err := m.cfg.serf(m.events, m, m.log)
	if err != nil {
		return nil, err
	}
	m.tags = conf.Tags
	m.pruned = conf.BroadcastTimeout + conf.LeavePropagateDelay + pruneSlack
	go m.watch() // serf sends events before Create returns
	if m.serf, err = serf.Create(conf); err != nil {
		m.endWatch()
		return nil, fmt.Errorf("start the gossip on %s: %w; another agent may be running: stop it, or set ports { serf = N }", cfg.Listen, err)
	}
	close(m.ready)
	go m.guard()
	return m, nil
}

// watch wakes waiting callers at each change.
func (m *Membership) watch() {
	defer close(m.done)
	for {
		select {
		case e := <-m.events:
			switch e := e.(type) {
			case serf.MemberEvent:
				m.signal()
			case *serf.Query:
				m.answer(e)
			}
		case <-m.stop:
			return
		}
	}
}

func (m *Membership) endWatch() {
	close(m.stop)
	<-m.done
}

func (m *Membership) signal() {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.changed)
	m.changed = make(chan struct{})
}

// guard reports when the gossip has ended by itself: another server has this one's name,
// and more servers know that one.
func (m *Membership) guard() {
	<-m.serf.ShutdownCh()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closing {
		m.failed <- errdefs.FailedPreconditionf("another server has the name %s, and the other servers know that one: set another `name` in this agent's configuration", m.cfg.fullName())
	}
}

// Failed returns a channel that receives an error when this server cannot gossip any
// more.
func (m *Membership) Failed() <-chan error { return m.failed }

// Changed returns a channel that is closed at the next change of the members.
func (m *Membership) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// Members returns all servers that this one knows, itself included, sorted by name.
func (m *Membership) Members() []Member {
	var out []Member
	for _, s := range m.serf.Members() {
		out = append(out, member(s))
	}
	slices.SortFunc(out, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Self returns this server as others know it.
func (m *Membership) Self() Member { return member(m.serf.LocalMember()) }

func member(s serf.Member) Member {
	expect, _ := strconv.Atoi(s.Tags[tagExpect]) // a server without it only joins
	return Member{
		Name: s.Name, ID: s.Tags[tagID], Region: s.Tags[tagRegion], Datacenter: s.Tags[tagDatacenter],
		Address: s.Addr.String(), Port: s.Port, RPC: net.JoinHostPort(s.Tags[tagHost], s.Tags[tagPort]),
		Version: s.Tags[tagBuild], Expect: expect, Cluster: s.Tags[tagCluster], Status: s.Status.String(), Tags: s.Tags,
		ProtocolMin: s.ProtocolMin, ProtocolMax: s.ProtocolMax, ProtocolCur: s.ProtocolCur,
		DelegateMin: s.DelegateMin, DelegateMax: s.DelegateMax, DelegateCur: s.DelegateCur,
	}
}

// SetTag changes a tag of this server; "" removes it.
func (m *Membership) SetTag(key, value string) error {
	m.tagging.Lock()
	defer m.tagging.Unlock()
	if m.tags[key] == value {
		return nil
	}
	tags := map[string]string{}
	for k, v := range m.tags {
		tags[k] = v
	}
	if tags[key] = value; value == "" {
		delete(tags, key)
	}
	if err := m.serf.SetTags(tags); err != nil {
		return fmt.Errorf("announce %s to the other servers: %w", key, err)
	}
	m.tags = tags
	return nil
}

// SetCluster tells the others the id of this server's cluster. From then on it does not
// merge with servers of another cluster.
func (m *Membership) SetCluster(id string) error {
	m.cluster.Store(&id)
	return m.SetTag(tagCluster, id)
}

// Join contacts servers at these addresses, and through them all others. It returns the
// number of those that have answered, and an error if none has.
func (m *Membership) Join(addresses []string) (int, error) {
	n, err := m.serf.Join(addresses, true)
	if err != nil {
		return n, errdefs.Unavailablef("%w", inOneLine(err))
	}
	return n, nil
}

// Alone reports whether no other server is alive. A server that joins its own address gets an
// answer, too.
func (m *Membership) Alone() bool {
	self := m.Self()
	return !slices.ContainsFunc(m.Members(), func(o Member) bool { return o.Name != self.Name && o.Status == Alive })
}

// inOneLine returns an error whose text has one line, though the library lists its causes.
func inOneLine(err error) error {
	var list interface{ WrappedErrors() []error }
	if !errors.As(err, &list) {
		return err
	}
	var texts []string
	for _, e := range list.WrappedErrors() {
		texts = append(texts, strings.TrimSpace(e.Error()))
	}
	return errors.New(strings.Join(texts, "; "))
}

// Twin returns the name of another alive server with this server's id, or "". A twin exists
// if a data directory was copied.
func (m *Membership) Twin() string {
	self := m.Self()
	for _, other := range m.Members() {
		if other.ID == self.ID && other.Name != self.Name && other.Status == Alive {
			return other.Name
		}
	}
	return ""
}

// ForceLeave marks a failed server as left; prune also removes it from the list. It has no
// effect on an alive server, which would refute it at once, or on an unknown one. The
// gossip tells the servers that are alive at that moment, normally each of them once; if a
// server misses it, repeat the call. With prune it returns when the server is removed here,
// which takes seconds if nobody has noticed yet that it has failed.
func (m *Membership) ForceLeave(ctx context.Context, name string, prune bool) error {
	if !strings.Contains(name, ".") {
		name += "." + m.cfg.Region
	}
	ask := m.serf.RemoveFailedNode
	if prune {
		ask = m.serf.RemoveFailedNodePrune
	}
	if err := ask(name); err != nil {
		return fmt.Errorf("make %s leave: %w", name, err)
	}
	if !prune {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, m.pruned)
	defer cancel()
	for {
		changed := m.Changed()
		if !slices.ContainsFunc(m.Members(), func(other Member) bool { return other.Name == name }) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errdefs.Unavailablef("%s is still a member; a server that is alive cannot be removed so", name)
		}
	}
}

// Leave tells the others that this server leaves. Close follows.
func (m *Membership) Leave() error {
	m.expectEnd()
	if err := m.serf.Leave(); err != nil {
		return fmt.Errorf("leave the other servers: %w", err)
	}
	return nil
}

func (m *Membership) expectEnd() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closing = true
}

// Close ends the gossip. Without Leave, the others mark this server as failed. Call it
// once.
func (m *Membership) Close() error {
	m.expectEnd()
	m.log.ending.Store(true)
	err := m.serf.Shutdown()
	m.endWatch()
	if err != nil {
		return fmt.Errorf("end the gossip: %w", err)
	}
	return nil
}
