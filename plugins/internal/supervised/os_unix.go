// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package supervised

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/plugins/internal/supervisor"
	"github.com/drover-project/drover/sdk/errdefs"
)

const defaultStopSignal = "SIGINT"

// SignalNumber parses a signal such as SIGTERM, TERM or 15.
func SignalNumber(name, fallback string) (int, error) {
	if name == "" {
		name = fallback
	}
	if n, err := strconv.Atoi(name); err == nil && n > 0 && n < 65 {
		return n, nil
	}
	upper := strings.ToUpper(name)
	if !strings.HasPrefix(upper, "SIG") {
		upper = "SIG" + upper
	}
	if n := unix.SignalNum(upper); n != 0 {
		return int(n), nil
	}
	return 0, errdefs.InvalidArgumentf("signal %q is unknown; name it as SIGTERM, TERM or 15", name)
}

// ResolveUser finds a user by name or id. It returns nil for the agent's user.
func ResolveUser(name string) (*supervisor.User, error) {
	if name == "" {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		if u, err = user.LookupId(name); err != nil {
			return nil, fmt.Errorf("user %q does not exist on this machine; use a name or an id that getent passwd lists", name)
		}
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user %q: id %q: %w", name, u.Uid, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user %q: group id %q: %w", name, u.Gid, err)
	}
	if int(uid) == os.Geteuid() {
		return nil, nil
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("user %q: the agent runs as user %d and cannot become another; run it as root", name, os.Geteuid())
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("user %q: list its groups: %w", name, err)
	}
	out := &supervisor.User{UID: uint32(uid), GID: uint32(gid)}
	for _, id := range ids {
		if n, err := strconv.ParseUint(id, 10, 32); err == nil {
			out.Groups = append(out.Groups, uint32(n))
		}
	}
	return out, nil
}
