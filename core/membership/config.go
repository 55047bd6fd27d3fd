// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package membership

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Config configures the gossip of one server.
type Config struct {
	// ID is the server's id, Name its name within the region. Both are unique.
	ID, Name           string
	Region, Datacenter string
	// Version is the version of drover, and Tags are further facts about this server
	// that others should know; see SetTag. All tags together have at most 512 bytes.
	Version string
	Tags    map[string]string
	// Listen is the address (host:port) on which to listen, over TCP and UDP, and
	// Advertise the one at which others reach it; "" means Listen.
	Listen, Advertise string
	// RPC is the advertised address of the server's rpc port.
	RPC string
	// Expect is the number of servers with which a new cluster begins.
	Expect int
	// Dir is the directory of the keys and of the known servers; "" keeps both in memory.
	Dir string
	// Key encrypts the gossip of a server that has no keys in Dir: 16, 24 or 32 bytes
	// in base64; "" means no encryption.
	Key string
	// RejoinAfterLeave joins the servers that were known before this server left.
	RejoinAfterLeave bool
	// Answer answers the questions of Ask; nil means no answer. It must not block.
	Answer func(question string) []byte
	// Fast shortens all times for tests on one machine.
	Fast   bool
	Logger hclog.Logger
}

// ProtocolVersion is the version of the gossip's protocol.
const ProtocolVersion = 5

// Times of the gossip.
const (
	// reclaim is the time after which a server at another address may take the name of a
	// failed server.
	reclaim = 10 * time.Second
	// reconnectFor is how long this server tries to reach failed servers again, and leftFor
	// how long it lists servers that have left.
	reconnectFor = 72 * time.Hour
	leftFor      = 24 * time.Hour
	// leavePropagation is how long a leaving server stays so that the news spreads.
	leavePropagation = time.Second
)

// fullName is the name of a server, unique over all regions.
func (c Config) fullName() string { return c.Name + "." + c.Region }

func (c Config) tags() (map[string]string, error) {
	host, port, err := net.SplitHostPort(c.RPC)
	if err != nil {
		return nil, errdefs.InvalidArgumentf("the advertised rpc address %q is not HOST:PORT: %w", c.RPC, err)
	}
	tags := map[string]string{
		tagRole: roleServer, tagRegion: c.Region, tagDatacenter: c.Datacenter, tagID: c.ID, tagHost: host, tagPort: port,
		tagBuild: c.Version, "revision": "", "vsn": "1", "raft_vsn": "3",
	}
	if c.Expect == 1 {
		tags["bootstrap"] = "1"
	}
	if c.Expect > 0 {
		tags[tagExpect] = strconv.Itoa(c.Expect)
	}
	for k, v := range c.Tags {
		tags[k] = v
	}
	return tags, nil
}

// serf returns the configuration of the library.
func (c Config) serf(events chan serf.Event, merge serf.MergeDelegate, log *quiet) (*serf.Config, error) {
	tags, err := c.tags()
	if err != nil {
		return nil, err
	}
	out := serf.DefaultConfig()
	out.Init()
	out.NodeName, out.Tags, out.EventCh, out.Merge = c.fullName(), tags, events, merge
	out.ProtocolVersion = ProtocolVersion
	out.ReconnectTimeout, out.TombstoneTimeout = reconnectFor, leftFor
	out.LeavePropagateDelay = leavePropagation
	out.DisableCoordinates = true
	out.EnableNameConflictResolution = true
	out.RejoinAfterLeave = c.RejoinAfterLeave
	out.LogOutput = log
	if out.MemberlistConfig, err = c.memberlist(); err != nil {
		return nil, err
	}
	out.MemberlistConfig.LogOutput = log
	if c.Fast {
		out.LeavePropagateDelay, out.ReconnectInterval, out.BroadcastTimeout = 100*time.Millisecond, time.Second, time.Second
	}
	if c.Dir != "" {
		if err := os.MkdirAll(c.Dir, 0o700); err != nil {
			return nil, fmt.Errorf("make the directory of the gossip: %w", err)
		}
		out.SnapshotPath = filepath.Join(c.Dir, "members")
		if out.MemberlistConfig.Keyring != nil {
			out.KeyringFile = c.keyFile()
		}
	}
	return out, nil
}

func (c Config) memberlist() (*memberlist.Config, error) {
	out := memberlist.DefaultLANConfig()
	if c.Fast {
		out = memberlist.DefaultLocalConfig()
		out.ProbeInterval, out.ProbeTimeout, out.SuspicionMult = 200*time.Millisecond, 100*time.Millisecond, 2
		out.GossipInterval, out.TCPTimeout = 20*time.Millisecond, 2*time.Second
	}
	out.DeadNodeReclaimTime = reclaim
	var err error
	if out.BindAddr, out.BindPort, err = split(c.Listen); err != nil {
		return nil, err
	}
	if c.Advertise != "" {
		if out.AdvertiseAddr, out.AdvertisePort, err = split(c.Advertise); err != nil {
			return nil, err
		}
		if out.AdvertiseAddr, err = address(out.AdvertiseAddr); err != nil {
			return nil, err
		}
	}
	out.Keyring, err = c.keyring()
	return out, err
}

// address resolves a name, because servers gossip about addresses only.
func address(host string) (string, error) {
	if net.ParseIP(host) != nil {
		return host, nil
	}
	found, err := net.LookupHost(host)
	if err != nil || len(found) == 0 {
		return "", errdefs.InvalidArgumentf("advertise.serf: %q has no address: %w", host, err)
	}
	return found[0], nil
}

func split(at string) (string, int, error) {
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return "", 0, errdefs.InvalidArgumentf("the gossip's address %q is not HOST:PORT: %w", at, err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return "", 0, errdefs.InvalidArgumentf("the gossip's address %q is not HOST:PORT: %w", at, err)
	}
	return host, n, nil
}

// keyFile is the file of the keys, in the format of serf: a JSON list of keys in base64.
// The first key encrypts; all of them decrypt.
func (c Config) keyFile() string { return filepath.Join(c.Dir, "keyring") }

// keyring returns the keys of the file, or makes the file of the configured key.
func (c Config) keyring() (*memberlist.Keyring, error) {
	keys, err := c.storedKeys()
	if err != nil {
		return nil, err
	}
	var first []byte
	if c.Key != "" {
		if first, err = decodeKey(c.Key); err != nil {
			return nil, err
		}
	}
	if len(keys) == 0 && first == nil {
		return nil, nil
	}
	if len(keys) == 0 {
		ring, err := memberlist.NewKeyring(nil, first)
		if err != nil {
			return nil, errdefs.InvalidArgumentf("server.encrypt: %w", err)
		}
		return ring, c.storeKeys([]string{c.Key})
	}
	if first != nil && !contains(keys, first) {
		c.Logger.Warn("server.encrypt is not among the keys of the gossip, and is not used: keys are changed with `drover operator gossip keyring`", "file", c.keyFile())
	}
	ring, err := memberlist.NewKeyring(keys, keys[0])
	if err != nil {
		return nil, errdefs.FailedPreconditionf("%s holds no keys of the gossip: %w; restore it, or remove it to use server.encrypt", c.keyFile(), err)
	}
	return ring, nil
}

func contains(keys [][]byte, key []byte) bool {
	for _, k := range keys {
		if string(k) == string(key) {
			return true
		}
	}
	return false
}

// decodeKey returns the bytes of a key, or why it is none.
func decodeKey(text string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(text)
	if err == nil {
		err = memberlist.ValidateKey(key)
	}
	if err != nil {
		return nil, errdefs.InvalidArgumentf("a key of the gossip is 16, 24 or 32 bytes in base64, as `drover operator gossip keyring generate` prints: %w", err)
	}
	return key, nil
}

func (c Config) storedKeys() ([][]byte, error) {
	if c.Dir == "" {
		return nil, nil
	}
	text, err := os.ReadFile(c.keyFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the keys of the gossip: %w", err)
	}
	return parseKeys(c.keyFile(), text)
}
