// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/cmd/drover/daemon"
)

func TestFlagsThatCannotBeHonouredAreRefusedBeforeAnythingStarts(t *testing.T) {
	for line, says := range map[string]string{
		"-dev-consul":             "-dev-consul: no Consul agent is started",
		"-vault-address http://x": "-vault-address: there is no Vault integration",
		"-retry-join a":           "a development agent is a cluster of its own",
		"-acl-enabled":            "there are no ACLs yet",
		"-raft-protocol 2":        "only 3 is",
		"-network-speed fast":     "not a speed in MBit/s",
		"-nonsense":               "flag provided but not defined",
	} {
		var out, errOut bytes.Buffer
		c := &daemon.Command{Version: "test", Out: &out, Err: &errOut}
		if code := c.Run(append([]string{"-dev"}, strings.Fields(line)...)); code != 1 || !strings.Contains(errOut.String(), says) || out.Len() > 0 {
			t.Errorf("%s: exit code %d: %s%s", line, code, out.String(), errOut.String())
		}
	}
}

func TestAnAgentWithAccessControlDoesNotStartWithoutIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.hcl")
	if err := os.WriteFile(path, []byte("acl {\n  enabled = true\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	if code := (&daemon.Command{Out: &out, Err: &errs}).Run([]string{"-dev", "-config", path}); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(errs.String(), "acl.enabled cannot be kept: there is no access control yet") || out.Len() > 0 {
		t.Errorf("it says %q and %q", out.String(), errs.String())
	}
}
