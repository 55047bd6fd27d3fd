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
// lost.
type identity struct {
	id    string
	file  string // "" if there is no data directory
	known bool   // it was read from the file
}

// readIdentity reads the server's id. If the file is missing, or was truncated by a
// power cut, the id is taken from the raft configuration in the log; a new server
// generates one.
func readIdentity(dataDir, raftDir string) (identity, error) {
	if dataDir == "" {
		return identity{id: uuid.NewString()}, nil
	}
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return identity{}, fmt.Errorf("make the server's directory: %w", err)
	}
	who := identity{file: filepath.Join(dataDir, "server-id")}
	b, err := os.ReadFile(who.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return who, fmt.Errorf("read the server's id: %w", err)
	}
	if text := strings.TrimSpace(string(b)); text != "" {
		id, err := uuid.Parse(text)
		if err != nil {
			return who, errdefs.FailedPreconditionf("%s holds no id: restore the file, or remove it to take the id from the log", who.file)
		}
		who.id, who.known = id.String(), true
		return who, nil
	}
	who.id, err = memberOfLog(who.file, raftDir)
	return who, err
}

// memberOfLog returns the id of the only server in the raft configuration in raftDir,
// or a new id if there is no log.
func memberOfLog(file, raftDir string) (string, error) {
	members, err := consensus.Members(raftDir)
	switch {
	case errdefs.IsNotFound(err):
		return uuid.NewString(), nil
	case err != nil:
		return "", fmt.Errorf("%s is missing or empty, and the log does not tell the server's id: %w", file, err)
	case len(members) == 0:
		return uuid.NewString(), nil
	case len(members) == 1:
		return members[0].ID, nil
	}
	return "", errdefs.FailedPreconditionf("%s is missing or empty, and the log names %d servers: write the id of this one into the file; they are %s", file, len(members), describe(members))
}

// member returns an error if the id is not in the raft configuration: such a server
// would wait for a leader forever.
func (i identity) member(log *consensus.Node) error {
	members, _, err := log.Configuration()
	if err != nil || len(members) == 0 {
		return err
	}
	for _, m := range members {
		if m.ID == i.id {
			return nil
		}
	}
	return errdefs.FailedPreconditionf("%s says that this server is %s, and the members of its log are %s: write the id of this one into the file, or remove the file to take the id from the log", i.file, i.id, describe(members))
}

func describe(members []consensus.Server) string {
	var out []string
	for _, m := range members {
		out = append(out, m.ID+" at "+m.Address)
	}
	return strings.Join(out, ", ")
}

// keep writes the id to its file, once the log contains it.
func (i identity) keep() error {
	if i.file == "" || i.known {
		return nil
	}
	if err := durable.WriteFile(i.file, []byte(i.id), 0o600); err != nil {
		return fmt.Errorf("write the server's id: %w", err)
	}
	return nil
}
