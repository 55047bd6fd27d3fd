// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"fmt"
	"slices"
	"strings"
)

// capabilities lists the names of the capabilities by number.
var capabilities = []string{
	"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
	"LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
	"SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
	"SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
	"MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
	"CHECKPOINT_RESTORE",
}

// DefaultCapabilities returns the capabilities of a task that requests none.
func DefaultCapabilities() []string {
	return []string{
		"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD",
		"NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
	}
}

// capAll stands for every capability.
const capAll = "ALL"

func capName(name string) string {
	return strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(name)), "CAP_")
}

func parseCaps(names []string) (set []string, all bool, err error) {
	for _, n := range names {
		n = capName(n)
		switch {
		case n == capAll:
			all = true
		case !slices.Contains(capabilities, n):
			return nil, false, fmt.Errorf("there is no capability %q; name one of %s", n, strings.ToLower(strings.Join(capabilities, ", ")))
		case !slices.Contains(set, n):
			set = append(set, n)
		}
	}
	return set, all, nil
}

// CheckCapabilities returns an error if a name is neither a capability nor "all".
func CheckCapabilities(names []string) error {
	_, _, err := parseCaps(names)
	return err
}

// NotAllowedError lists the capabilities that a task requested but that are not allowed.
// The driver adds to the text which of its settings allows more.
type NotAllowedError struct{ Names []string }

func (e *NotAllowedError) Error() string {
	return fmt.Sprintf("capabilities %s are not allowed", strings.ToLower(strings.Join(e.Names, ", ")))
}

// Capabilities returns, by number, the bounding set of a task and which of its capabilities
// that were requested by name. The result is the allowed default capabilities, plus add,
// minus drop. "all" means all allowed capabilities in add, and all default ones in drop.
func Capabilities(allowed, add, drop []string) (bounding, named []int, err error) {
	allow, allowAll, err := parseCaps(allowed)
	if err != nil {
		return nil, nil, err
	}
	if allowAll {
		allow = capabilities
	}
	wanted, addAll, err := parseCaps(add)
	if err != nil {
		return nil, nil, err
	}
	unwanted, dropAll, err := parseCaps(drop)
	if err != nil {
		return nil, nil, err
	}
	var refused []string
	for _, n := range wanted {
		if !slices.Contains(allow, n) {
			refused = append(refused, n)
		}
	}
	if len(refused) > 0 {
		return nil, nil, &NotAllowedError{Names: refused}
	}
	if addAll {
		wanted = allow
	}
	base := DefaultCapabilities()
	if dropAll {
		base = nil
	}
	for i, n := range capabilities {
		isDefault := slices.Contains(base, n) && slices.Contains(allow, n)
		isNamed := slices.Contains(wanted, n) && !slices.Contains(unwanted, n)
		if isNamed {
			named = append(named, i)
		}
		if isNamed || isDefault && !slices.Contains(unwanted, n) {
			bounding = append(bounding, i)
		}
	}
	return bounding, named, nil
}
