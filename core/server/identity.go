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

// identity is who this server is in the log's membership. The file of the id is
// written only after the log has taken it in, so an id beside an empty log means
// that the log was lost.
type identity struct {
	id    string
	file  string // "" for a server without a data directory
	known bool   // the file held it
}

// readIdentity reads the server's id. A file that a power cut has emptied, or that
// is missing, is made again from the membership in the log; a new server mints one.
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

// memberOfLog returns the id of the only member of the log in raftDir, or a new one if
// there is no log.
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

// member refuses an id that is not of the log's members: such a server would wait for
// a leader for ever.
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

// keep makes the id durable, once the log has it.
func (i identity) keep() error {
	if i.file == "" || i.known {
		return nil
	}
	if err := durable.WriteFile(i.file, []byte(i.id), 0o600); err != nil {
		return fmt.Errorf("write the server's id: %w", err)
	}
	return nil
}
