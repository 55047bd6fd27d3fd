// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/drover-project/drover/cmd/drover/daemon"
)

func TestFlagsThatCannotBeHonouredAreRefusedBeforeAnythingStarts(t *testing.T) {
	for line, says := range map[string]string{
		"-dev-consul":             "-dev-consul: there is no Consul integration",
		"-vault-address http://x": "-vault-address: there is no Vault integration",
		"-retry-join a":           "runs one server",
		"-acl-enabled":            "there are no ACLs yet",
		"-raft-protocol 2":        "is not 3",
		"-network-speed fast":     "no speed in MBit/s",
		"-nonsense":               "flag provided but not defined",
	} {
		var out, errOut bytes.Buffer
		c := &daemon.Command{Version: "test", Out: &out, Err: &errOut}
		if code := c.Run(append([]string{"-dev"}, strings.Fields(line)...)); code != 1 || !strings.Contains(errOut.String(), says) || out.Len() > 0 {
			t.Errorf("%s: exit code %d: %s%s", line, code, out.String(), errOut.String())
		}
	}
}
