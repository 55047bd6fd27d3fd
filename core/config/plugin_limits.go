// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"strconv"
	"strings"
)

// PluginLimits limit the processes of one plugin; 0 means the default.
type PluginLimits struct {
	MemoryMB int // default: no limit
	Pids     int // processes and threads; -1 means no limit
}

// pluginOption is the prefix of the client.options that limit plugins:
// "plugin.NAME.memory_mb" and "plugin.NAME.pids". They are options and not a block,
// because the reference rejects unknown blocks.
const pluginOption = "plugin."

// PluginLimits returns the limits by the name of the plugin's file; those under "*" apply to
// plugins without limits of their own. problems describes invalid values.
func (c *Client) PluginLimits() (limits map[string]PluginLimits, problems []string) {
	limits = map[string]PluginLimits{}
	for key, text := range c.Options {
		rest, ours := strings.CutPrefix(key, pluginOption)
		dot := strings.LastIndexByte(rest, '.')
		if !ours || dot <= 0 {
			continue // another option
		}
		name, what := rest[:dot], rest[dot+1:]
		n, err := strconv.Atoi(text)
		l := limits[name]
		switch {
		case what == "memory_mb" && err == nil && n > 0:
			l.MemoryMB = n
		case what == "pids" && err == nil && (n > 0 || n == -1):
			l.Pids = n
		case what == "memory_mb":
			problems = append(problems, fmt.Sprintf("client.options %q: %q is not a number of MiB above 0", key, text))
		case what == "pids":
			problems = append(problems, fmt.Sprintf("client.options %q: %q is neither a number of processes above 0 nor -1 for no limit", key, text))
		default:
			problems = append(problems, fmt.Sprintf("client.options %q: a plugin has the limits memory_mb and pids", key))
		}
		limits[name] = l
	}
	return limits, problems
}
