// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build windows

package supervised

import (
	"strconv"

	"github.com/drover-project/drover/plugins/internal/supervisor"
	"github.com/drover-project/drover/sdk/errdefs"
)

const defaultStopSignal = "SIGKILL"

// SignalNumber parses a signal. Windows supports only the kill.
func SignalNumber(name, fallback string) (int, error) {
	if name == "" {
		name = fallback
	}
	switch name {
	case "SIGKILL", "KILL", "9", "SIGINT", "INT", "2", "SIGTERM", "TERM", "15":
		return 9, nil
	}
	if _, err := strconv.Atoi(name); err == nil {
		return 0, errdefs.InvalidArgumentf("signal %s does not exist on Windows; use SIGKILL", name)
	}
	return 0, errdefs.InvalidArgumentf("signal %q is unknown; use SIGKILL", name)
}

// ResolveUser accepts only the agent's user.
func ResolveUser(name string) (*supervisor.User, error) {
	if name != "" {
		return nil, errdefs.Unimplementedf("running a task as another user is not possible on Windows; leave user empty")
	}
	return nil, nil
}
