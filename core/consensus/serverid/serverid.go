// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package serverid owns the id by which a server is known in the raft configuration, and
// the files that keep it across restarts. core/server and core/joining import it.
package serverid

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/core/durable"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Identity is this server's id in the raft configuration. Its file is written only after
// the log contains the id, so an id with an empty log means that the log was lost. Until
// then a server that may join a cluster keeps its id in another file: the leader may have
// made it a member before it has received the log.
type Identity struct {
	ID string
	// Known says that the id was read from its file: the log must contain it.
	Known bool
	file  string // "" if there is no data directory
}

// proposedSuffix ends the name of the file of an id that the log does not contain yet.
const proposedSuffix = ".new"

// Read reads the server's id. If the file is missing, or was truncated by a power cut, the
// id is taken from the raft configuration in the log, where address is the id of this
// server; a new server generates one.
func Read(dataDir, raftDir, address string) (Identity, error) {
	if dataDir == "" {
		return Identity{ID: uuid.NewString()}, nil
	}
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return Identity{}, fmt.Errorf("make the server's directory: %w", err)
	}
	who := Identity{file: filepath.Join(dataDir, "server-id")}
	id, err := idIn(who.file)
	if err != nil {
		return who, err
	}
	if id != "" {
		who.ID, who.Known = id, true
		return who, nil
	}
	proposed, err := idIn(who.file + proposedSuffix)
	if err != nil {
		return who, err
	}
	who.ID, err = memberOfLog(who.file, raftDir, proposed, address)
	return who, err
}

// idIn returns the id in a file, "" if the file is missing or empty.
func idIn(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the server's id: %w", err)
	}
	text := strings.TrimSpace(string(b))
	if text == "" {
		return "", nil
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return "", errdefs.FailedPreconditionf("%s holds no id: restore the file, or remove it to take the id from the log", file)
	}
	return id.String(), nil
}

// memberOfLog returns the id of this server in the raft configuration in raftDir: the id of
// the only member, the proposed one, or the id of the member with this server's address. If
// there is no log, it is the proposed id or a new one.
func memberOfLog(file, raftDir, proposed, address string) (string, error) {
	members, err := consensus.Members(raftDir)
	switch {
	case errdefs.IsNotFound(err) || err == nil && len(members) == 0:
		if proposed != "" {
			return proposed, nil
		}
		return uuid.NewString(), nil
	case err != nil:
		return "", fmt.Errorf("%s is missing or empty, and the log does not tell the server's id: %w", file, err)
	case len(members) == 1:
		return members[0].ID, nil
	}
	for _, m := range members {
		if m.ID == proposed || m.Address == address {
			return m.ID, nil
		}
	}
	return "", errdefs.FailedPreconditionf("%s is missing or empty, and the log names %d servers: write the id of this one into the file; they are %s", file, len(members), describe(members))
}

// Member reports whether the raft configuration contains the id. If it contains only
// others, a server that nobody can add (joins is false) gets FailedPrecondition: it would
// wait for a leader forever.
func (i Identity) Member(log *consensus.Node, joins bool) (bool, error) {
	members, _, err := log.Configuration()
	if err != nil || len(members) == 0 {
		return false, err
	}
	for _, m := range members {
		if m.ID == i.ID {
			return true, nil
		}
	}
	if joins {
		return false, nil
	}
	return false, errdefs.FailedPreconditionf("%s says that this server is %s, and the members of its log are %s: write the id of this one into the file, or remove the file to take the id from the log", i.file, i.ID, describe(members))
}

func describe(members []consensus.Server) string {
	var out []string
	for _, m := range members {
		out = append(out, m.ID+" at "+m.Address)
	}
	return strings.Join(out, ", ")
}

// WriteDown stores the id before this server uses it: to its file if the log contains it,
// and otherwise to the file of an id that is not in the log yet. Its errors come from
// Member and from the disk.
func (i Identity) WriteDown(log *consensus.Node, joins bool) error {
	if member, err := i.keepIfMember(log, joins); member || err != nil || i.file == "" || i.Known {
		return err
	}
	if err := durable.WriteFile(i.file+proposedSuffix, []byte(i.ID), 0o600); err != nil {
		return fmt.Errorf("write the server's id: %w", err)
	}
	return nil
}

// Look is the pause between two checks of whether a server is a member.
const Look = 200 * time.Millisecond

// KeepOnceMember returns when the id is in its file, because the log contains it, or when
// ctx ends.
func (i Identity) KeepOnceMember(ctx context.Context, log *consensus.Node, joins bool, logger hclog.Logger) {
	tick := time.NewTicker(Look)
	defer tick.Stop()
	for {
		member, err := i.keepIfMember(log, joins)
		switch {
		case ctx.Err() != nil || err == nil && member:
			return
		case err != nil:
			logger.Error("this server's id could not be written", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (i Identity) keepIfMember(log *consensus.Node, joins bool) (member bool, err error) {
	member, err = i.Member(log, joins)
	if !member || err != nil || i.file == "" || i.Known {
		return member, err
	}
	if err := durable.WriteFile(i.file, []byte(i.ID), 0o600); err != nil {
		return false, fmt.Errorf("write the server's id: %w", err)
	}
	if err := os.Remove(i.file + proposedSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("remove the file of an id that is kept elsewhere now: %w", err)
	}
	return true, nil
}
