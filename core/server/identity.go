// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/core/durable"
	"github.com/drover-project/drover/sdk/errdefs"
)

// identity is this server's id in the raft configuration. Its file is written only
// after the log contains the id, so an id with an empty log means that the log was
// lost. Until then a server that may join a cluster keeps its id in another file:
// servers may have made it a member before it has received the log.
type identity struct {
	id    string
	file  string // "" if there is no data directory
	known bool   // it was read from the file
}

// proposedSuffix ends the name of the file of an id that the log does not contain yet.
const proposedSuffix = ".new"

// readIdentity reads the server's id. If the file is missing, or was truncated by a
// power cut, the id is taken from the raft configuration in the log, where address is
// that of this server; a new server generates one.
func readIdentity(dataDir, raftDir, address string) (identity, error) {
	if dataDir == "" {
		return identity{id: uuid.NewString()}, nil
	}
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return identity{}, fmt.Errorf("make the server's directory: %w", err)
	}
	who := identity{file: filepath.Join(dataDir, "server-id")}
	id, err := idIn(who.file)
	if err != nil {
		return who, err
	}
	if id != "" {
		who.id, who.known = id, true
		return who, nil
	}
	proposed, err := idIn(who.file + proposedSuffix)
	if err != nil {
		return who, err
	}
	who.id, err = memberOfLog(who.file, raftDir, proposed, address)
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

// memberOfLog returns the id of this server in the raft configuration in raftDir: that
// of the only member, the proposed one, or that of the member with this server's
// address. If there is no log, it is the proposed id or a new one.
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

// member reports whether the raft configuration contains the id. If it contains only
// others, a server that nobody can add returns an error: it would wait for a leader
// forever.
func (i identity) member(log *consensus.Node, joins bool) (bool, error) {
	members, _, err := log.Configuration()
	if err != nil || len(members) == 0 {
		return false, err
	}
	for _, m := range members {
		if m.ID == i.id {
			return true, nil
		}
	}
	if joins {
		return false, nil
	}
	return false, errdefs.FailedPreconditionf("%s says that this server is %s, and the members of its log are %s: write the id of this one into the file, or remove the file to take the id from the log", i.file, i.id, describe(members))
}

func describe(members []consensus.Server) string {
	var out []string
	for _, m := range members {
		out = append(out, m.ID+" at "+m.Address)
	}
	return strings.Join(out, ", ")
}

// propose writes down the id of a server that is not a member yet.
func (i identity) propose() error {
	if i.file == "" || i.known {
		return nil
	}
	if err := durable.WriteFile(i.file+proposedSuffix, []byte(i.id), 0o600); err != nil {
		return fmt.Errorf("write the server's id: %w", err)
	}
	return nil
}

// keep writes the id to its file, once the log contains it.
func (i identity) keep() error {
	if i.file == "" || i.known {
		return nil
	}
	if err := durable.WriteFile(i.file, []byte(i.id), 0o600); err != nil {
		return fmt.Errorf("write the server's id: %w", err)
	}
	if err := os.Remove(i.file + proposedSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the file of an id that is kept elsewhere now: %w", err)
	}
	return nil
}
