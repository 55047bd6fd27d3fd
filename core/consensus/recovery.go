// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/drover-project/drover/core/durable"
	"github.com/drover-project/drover/sdk/errdefs"
)

// The files of a recovery, in the directory of the log.
const (
	peersFile   = "peers.json"
	appliedFile = "peers.json.applied"
	infoFile    = "peers.info"
)

// maxPeersFile limits the size of peers.json.
const maxPeersFile = 1 << 20

// peersInfo is what peers.info says.
const peersInfo = `When most servers of a cluster are lost for good, the others cannot elect a leader.
To go on without the lost ones:

1. Stop all servers that are left.
2. On each, write the same file peers.json into this directory. It lists the servers that
   are left, by the id in the file server-id in the directory above, and the
   address of their rpc port:

   [
     { "id": "adf4238a-882b-9ddc-4a9d-5b6758e4159e", "address": "10.1.0.1:4647", "non_voter": false },
     { "id": "8b6dda82-3103-11e7-93ae-92361f002671", "address": "10.1.0.2:4647" }
   ]

   At least one must be a voter, and the server itself must be in the list.
3. Start them. Each reads the file once and renames it to peers.json.applied. A file with
   an error changes nothing: the server does not start, and says what to mend.

Everything in the logs of these servers counts as committed then, also what no client got
an answer for. Never start a server that was left out: it must begin with an empty data
directory, and joins as a new server.

Do not use this while a majority of the servers can be started: they elect a leader
themselves.
`

// peer is an entry of peers.json.
type peer struct {
	ID       string `json:"id"`
	Address  string `json:"address"`
	NonVoter bool   `json:"non_voter"`
}

// recover replaces the raft configuration by the one in peers.json, if there is such a
// file, and renames the file. It may be repeated after a crash at any point: until the file
// is renamed, nothing else was written.
func (n *Node) recover(cfg Config, machine adapter) error {
	if cfg.DataDir == "" || cfg.Listener == nil {
		return nil
	}
	if err := writeInfo(cfg.DataDir); err != nil {
		return err
	}
	file := filepath.Join(cfg.DataDir, peersFile)
	text, err := readLimited(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the servers with which to recover: %w", err)
	}
	servers, err := parsePeers(text, cfg.NodeID)
	if err != nil {
		return errdefs.FailedPreconditionf("%s: %w. Nothing was changed; correct the file, or remove it to start without a recovery", file, err)
	}
	exists, err := raft.HasExistingState(n.stores.log, n.stores.stable, n.stores.snapshots)
	if err != nil {
		return fmt.Errorf("read whether this server has a log: %w", err)
	}
	if !exists {
		return errdefs.FailedPreconditionf("%s: this server has no log to recover: put its data directory back, or remove the file to start a new server. Nothing was changed", file)
	}
	n.logger.Warn("the cluster goes on with the servers of "+file+"; everything in this server's log counts as committed", "servers", describeServers(servers))
	if err := raft.RecoverCluster(cfg.raftConfig(n.logger), whole{machine, n}, n.stores.log, n.stores.stable, n.stores.snapshots, n.transport, firstMembers(servers)); err != nil {
		return fmt.Errorf("recover with the servers of %s, which is tried again at the next start: %w", file, err)
	}
	if err := os.Rename(file, filepath.Join(cfg.DataDir, appliedFile)); err != nil {
		return fmt.Errorf("the recovery with %s is complete, but the file cannot be renamed: %w", file, err)
	}
	return durable.SyncFolder(cfg.DataDir)
}

// whole is a state machine without a snapshot after an entry that could not be read, because
// that snapshot would replace the log.
type whole struct {
	adapter
	node *Node
}

func (w whole) Snapshot() (raft.FSMSnapshot, error) {
	if err := w.node.brokenDown(); err != nil {
		return nil, err
	}
	return w.adapter.Snapshot()
}

func writeInfo(dir string) error {
	file := filepath.Join(dir, infoFile)
	if old, err := os.ReadFile(file); err == nil && string(old) == peersInfo {
		return nil
	}
	if err := durable.WriteFile(file, []byte(peersInfo), 0o600); err != nil {
		return fmt.Errorf("write how to recover from the loss of servers: %w", err)
	}
	return nil
}

func readLimited(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPeersFile+1))
	if err == nil && len(text) > maxPeersFile {
		err = errdefs.FailedPreconditionf("%s has more than %d bytes", file, maxPeersFile)
	}
	return text, err
}

// parsePeers returns the servers of peers.json, in which self must be.
func parsePeers(text []byte, self string) ([]Server, error) {
	var peers []peer
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&peers); err != nil {
		var addresses []string
		if json.Unmarshal(text, &addresses) == nil {
			return nil, errors.New(`it lists addresses, as for version 2 of raft's protocol; write [{"id": "ID", "address": "HOST:PORT"}]`)
		}
		return nil, fmt.Errorf(`it is no list such as [{"id": "ID", "address": "HOST:PORT", "non_voter": false}]: %w`, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the end of the list; remove it")
	}
	if len(peers) == 0 {
		return nil, errors.New("it lists no server; list those that are left")
	}
	var out []Server
	ids, addresses := map[string]int{}, map[string]int{}
	voters := 0
	for i, p := range peers {
		if err := p.check(); err != nil {
			return nil, fmt.Errorf("entry %d: %w", i+1, err)
		}
		if first := ids[p.ID]; first > 0 {
			return nil, fmt.Errorf("entry %d: the id %q is that of entry %d, too; each server has its own, in its file server-id", i+1, p.ID, first)
		}
		if first := addresses[p.Address]; first > 0 {
			return nil, fmt.Errorf("entry %d: the address %q is that of entry %d, too; each server has its own", i+1, p.Address, first)
		}
		ids[p.ID], addresses[p.Address] = i+1, i+1
		if !p.NonVoter {
			voters++
		}
		out = append(out, Server{ID: p.ID, Address: p.Address, Voter: !p.NonVoter})
	}
	if voters == 0 {
		return nil, errors.New("no server in it votes; set non_voter to false for at least one")
	}
	if ids[self] == 0 {
		return nil, fmt.Errorf("this server, whose id is %s, is not in it; add it, or do not start this server", self)
	}
	return out, nil
}

func (p peer) check() error {
	if strings.TrimSpace(p.ID) == "" || p.ID != strings.TrimSpace(p.ID) {
		return fmt.Errorf("the id %q is none; it is in the file server-id of the server", p.ID)
	}
	host, port, err := net.SplitHostPort(p.Address)
	if n, bad := strconv.Atoi(port); err != nil || host == "" || bad != nil || n < 1 || n > 65535 {
		return fmt.Errorf("the address %q is not HOST:PORT of an rpc port", p.Address)
	}
	return nil
}

func describeServers(servers []Server) string {
	var out []string
	for _, s := range servers {
		out = append(out, s.ID+" at "+s.Address)
	}
	return strings.Join(out, ", ")
}
