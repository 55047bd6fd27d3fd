// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

const (
	// pooledConnections is the number of idle connections that are kept per peer.
	pooledConnections = 3
	peerTimeout       = 10 * time.Second
)

// transport is raft's transport interface with Close.
type transport interface {
	raft.Transport
	Close() error
}

func openTransport(cfg Config, log raft.LogStore, logger hclog.Logger, running *atomic.Pointer[raft.Raft]) transport {
	if cfg.Listener == nil {
		_, memory := raft.NewInmemTransport(memoryAddress)
		memory.Connect(memoryAddress, memory) // see Node.electSelf
		return memory
	}
	dial := cfg.Dial
	if dial == nil {
		dial = func(address string, timeout time.Duration) (net.Conn, error) {
			return net.DialTimeout("tcp", address, timeout)
		}
	}
	conf := &raft.NetworkTransportConfig{
		Stream:  &streams{Listener: cfg.Listener, advertise: cfg.Advertise, dial: dial},
		MaxPool: pooledConnections,
		Timeout: peerTimeout,
		Logger:  logger,
	}
	if cfg.Lookup != nil {
		conf.ServerAddressProvider = lookup{cfg.Lookup, running}
	}
	t := &pipelines{NetworkTransport: raft.NewNetworkTransportWithConfig(conf), open: map[raft.AppendPipeline]bool{}}
	return newSnapshotEnd(t, log, running)
}

// lookup finds servers that have moved.
type lookup struct {
	find func(id string) (string, bool)
	raft *atomic.Pointer[raft.Raft] // nil until raft runs
}

// ServerAddr returns the address at which a server is now, or else the address in the raft
// configuration. After an error raft itself would use the latter, too, but log each time.
func (l lookup) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	if address, known := l.find(string(id)); known {
		return raft.ServerAddress(address), nil
	}
	if r := l.raft.Load(); r != nil {
		for _, s := range r.GetConfiguration().Configuration().Servers {
			if s.ID == id {
				return s.Address, nil
			}
		}
	}
	return "", unknownServer(string(id))
}

// streams implements raft's stream layer with our listener and dialer.
type streams struct {
	net.Listener
	advertise string
	dial      func(address string, timeout time.Duration) (net.Conn, error)
	conns     connections
}

func (s *streams) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	conn, err := s.dial(string(address), timeout)
	if err != nil {
		return nil, err
	}
	return s.conns.add(conn), nil
}

func (s *streams) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return s.conns.add(conn), nil
}

func (s *streams) Close() error {
	s.conns.closeAll()
	return s.Listener.Close()
}

// Addr returns the address that this server advertises.
func (s *streams) Addr() net.Addr {
	if s.advertise == "" {
		return s.Listener.Addr()
	}
	return advertised(s.advertise)
}

// advertised is an address as configured, not resolved.
type advertised string

func (a advertised) Network() string { return "tcp" }
func (a advertised) String() string  { return string(a) }
