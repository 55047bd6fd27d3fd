// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverqemu

import (
	"strings"

	"github.com/drover-project/drover/sdk/errdefs"
)

// fdsets is how the files are called that a machine was given open.
const fdsets = "/dev/fdset/"

// blockNode is an image, as query-named-block-nodes tells of it.
type blockNode struct {
	File  string `json:"file"`
	Image struct {
		Specific struct {
			Data struct {
				DataFile string `json:"data-file"`
			} `json:"data"`
		} `json:"format-specific"`
	} `json:"image"`
}

// release lets a machine run that was started paused, if its images are as they were
// checked. Formats and backing files are spelled out to QEMU, but the name of a
// qcow2 image's data file only its header tells: whoever may write the file could
// have put one there after the check, and the machine has opened it then. A guest
// that has not run has seen nothing of it.
func (m *monitor) release(l *launch) error {
	var nodes []blockNode
	if err := m.command("query-named-block-nodes", nil, &nodes); err != nil {
		return err
	}
	for _, n := range nodes {
		// What an operator lets tasks name to QEMU itself is no matter of ours.
		if other := n.Image.Specific.Data.DataFile; other != "" && strings.Contains(n.File, fdsets) {
			return errdefs.PermissionDeniedf("an image was changed while the machine was started: it keeps its data in another file now, %s (data_file)", other)
		}
	}
	if l.Paused {
		return nil
	}
	return m.command("cont", nil, nil)
}
