// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/drover-project/drover/core/model"
)

// describeAccess shows the rights of a plugin on its node.
func (s *session) describeAccess(a *model.PluginAccess) {
	if a == nil {
		return
	}
	s.title("\nWhat it may do (profile %s)", a.Profile)
	user := fmt.Sprintf("%d, which no other plugin has", a.UID)
	if a.User != "" {
		user = fmt.Sprintf("%s (%d)", a.User, a.UID)
	}
	files := "all that its user may"
	if a.Filesystem != "all" {
		files = "reads all that its user may but " + strings.Join(a.HiddenPaths, ", ")
		if len(a.ReadPaths) > 0 {
			files += "; also " + strings.Join(a.ReadPaths, ", ")
		}
		files += "; writes to " + strings.Join(append([]string{"its folder"}, a.WritePaths...), ", ")
	}
	socket := cmp.Or(a.Socket, "a port of this machine")
	if a.TLS {
		socket += ", mutual TLS"
	} else {
		socket += ", no TLS"
	}
	s.pairs("User", user, "Groups", orNone(a.Groups), "Capabilities", orNone(a.Capabilities), "New privileges", yesNo(!a.NoNewPrivileges, "possible", "none"),
		"Files", files, "Network", yesNo(a.Network, "yes", "none"), "System calls", a.Syscalls,
		"Memory", limitText(a.MemoryMB, "MiB"), "Processes", limitText(a.Pids, "with threads"), "Open files", limitText(a.OpenFiles, "each"),
		"Folder", fmt.Sprintf("%s, %s", a.Folder, limitText(a.StateMB, "MiB")), "Socket", socket)
	for _, what := range a.Lacking {
		s.printf("Not enforced: %s", what)
	}
}

func orNone(names []string) string { return cmp.Or(strings.Join(names, ", "), "none") }

func yesNo(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

func limitText(n int, unit string) string {
	if n == 0 {
		return "no limit"
	}
	return fmt.Sprintf("at most %d %s", n, unit)
}
