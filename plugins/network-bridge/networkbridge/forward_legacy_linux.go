// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkbridge

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// programLimit is for one call of iptables, which waits for others that change its tables.
const programLimit = 10 * time.Second

// passLegacy does what pass does where the rules of iptables are not in nftables but in tables of
// their own (iptables-legacy), as on Amazon Linux 2. Only the program itself knows these tables.
func (s settings) passLegacy(wanted bool) error {
	for names, programs := range map[string][]string{
		"ip_tables_names": {"iptables-legacy", "iptables"}, "ip6_tables_names": {"ip6tables-legacy", "ip6tables"},
	} {
		tables, err := os.ReadFile("/proc/thread-self/net/" + names)
		if err != nil || !slices.Contains(strings.Fields(string(tables)), "filter") {
			continue // nobody uses them
		}
		program := legacy(programs)
		if program == "" {
			continue // who has made the tables must let the bridge pass
		}
		if err := s.passBy(program, wanted); err != nil {
			return err
		}
	}
	return nil
}

// legacy returns the path of the first program that is installed and does not use nftables.
func legacy(programs []string) string {
	for _, name := range programs {
		for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
			path := filepath.Join(dir, name)
			if version, err := call(path, "--version"); err == nil && !strings.Contains(version, "nf_tables") {
				return path
			}
		}
	}
	return ""
}

func call(path string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), programLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %.300s", path, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), err
}

// passBy makes the two rules of the bridge exist if they are wanted and needed, and only then.
func (s settings) passBy(program string, wanted bool) error {
	rules, err := call(program, "-w", "-S", "FORWARD")
	if err != nil {
		return errdefs.FailedPreconditionf("read the chain FORWARD: %w", err)
	}
	needed := wanted && slices.Contains(strings.Split(rules, "\n"), "-P FORWARD DROP")
	for _, direction := range []string{"-i", "-o"} {
		rule := []string{"FORWARD", direction, s.name, "-m", "comment", "--comment", s.tableName(), "-j", "ACCEPT"}
		do := func(what string) error {
			_, err := call(program, append([]string{"-w", what}, rule...)...)
			return err
		}
		has := do("-C") == nil
		switch {
		case needed && !has:
			err = do("-I")
		case !needed && has:
			err = do("-D")
		}
		if err != nil {
			return errdefs.FailedPreconditionf("let packets of the bridge pass the chain FORWARD: %w", err)
		}
	}
	return nil
}
