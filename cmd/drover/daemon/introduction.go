// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/drover-project/drover/core/model"
)

// introFile is the file in a node's state directory that may contain the token with which
// the node joins.
const introFile = "intro_token.jwt"

// introduction returns the token that introduces the node: the token of the flag, or of the
// file in the state directory. A node that has an identity does not need it.
func (d *Daemon) introduction(stateDir string) string {
	if t := strings.TrimSpace(d.cfg().Client.IntroToken); t != "" {
		return t
	}
	name := filepath.Join(stateDir, introFile)
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err == nil && info.Size() > model.MaxNodeToken {
		d.log.Warn("the file with the introduction of this node is too large and is not used", "file", name, "bytes", info.Size(), "most", model.MaxNodeToken)
		return ""
	}
	body, err := os.ReadFile(name)
	if err != nil {
		d.log.Warn("the file with the introduction of this node cannot be read", "file", name, "error", err)
	}
	return strings.TrimSpace(string(body))
}
