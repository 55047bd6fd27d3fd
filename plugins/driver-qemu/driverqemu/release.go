// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverqemu

import (
	"strings"

	"github.com/drover-project/drover/sdk/errdefs"
)

// blockNode is an image in the answer of query-named-block-nodes.
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

// statusLoading is QEMU's status of a machine that reads a checkpoint.
const statusLoading = "inmigrate"

// release resumes a VM that was started paused, if its images are the ones that were
// checked. QEMU is told formats and backing files, but it reads the name of a qcow2
// image's data file from the header. A user who can write the image could have added
// such a name after the check, so that the VM has opened that file. The guest has
// not run yet, so it has read nothing of it.
func (m *monitor) release(l *launch) error {
	if l.Incoming != "" {
		var status struct {
			Status string `json:"status"`
		}
		if err := m.command("query-status", nil, &status); err != nil {
			return err
		}
		if status.Status == statusLoading {
			return errdefs.Unavailablef("the machine is still reading its checkpoint")
		}
	}
	var nodes []blockNode
	if err := m.command("query-named-block-nodes", nil, &nodes); err != nil {
		return err
	}
	for _, n := range nodes {
		// If an operator allows tasks to pass file names to QEMU directly, those are not
		// checked.
		if other := n.Image.Specific.Data.DataFile; other != "" && strings.Contains(n.File, openFiles) {
			return errdefs.PermissionDeniedf("an image was changed while the machine was started: it now stores its data in another file, %s (data_file)", other)
		}
	}
	if l.Paused {
		return nil
	}
	return m.command("cont", nil, nil)
}
