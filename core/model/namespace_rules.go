// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The rules of a namespace are checked when a job is registered; running jobs are not
// affected. A namespace without rules allows everything.

// AllowsDriver reports whether jobs of the namespace may use a task driver. A driver
// that is both enabled and disabled is not allowed.
func (n *Namespace) AllowsDriver(name string) bool {
	c := n.Capabilities
	return c == nil || listed(name, c.EnabledTaskDrivers, c.DisabledTaskDrivers)
}

// AllowsNetworkMode reports whether groups of the namespace's jobs may have a network
// block with the mode. A block without a mode has mode "host".
func (n *Namespace) AllowsNetworkMode(mode string) bool {
	c := n.Capabilities
	return c == nil || listed(mode, c.EnabledNetworkModes, c.DisabledNetworkModes)
}

func listed(name string, enabled, disabled []string) bool {
	return (len(enabled) == 0 || slices.Contains(enabled, name)) && !slices.Contains(disabled, name)
}

// DefaultNodePool returns the pool of jobs that do not name one.
func (n *Namespace) DefaultNodePool() string {
	if c := n.NodePoolConfiguration; c != nil && c.Default != "" {
		return c.Default
	}
	return NodePoolDefault
}

// AllowsNodePool reports whether jobs of the namespace may be placed in a node pool.
// The namespace's default pool is always allowed. In the lists, * matches any text. A
// list of allowed pools that is empty but not nil allows only the default.
func (n *Namespace) AllowsNodePool(pool string) bool {
	c := n.NodePoolConfiguration
	switch {
	case c == nil || pool == n.DefaultNodePool():
		return true
	case c.Allowed != nil:
		return anyMatch(c.Allowed, pool)
	}
	return !anyMatch(c.Denied, pool)
}

func anyMatch(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

// matches reports whether a name matches a pattern in which * stands for any text.
func matches(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	rest, ok := strings.CutPrefix(name, parts[0])
	if !ok || len(parts) == 1 {
		return ok && rest == ""
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		_, after, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, parts[last])
}

// CheckJob returns an error that lists the rules of the namespace that a job breaks,
// or nil.
func (n *Namespace) CheckJob(job *Job) error {
	var broken []string
	if !n.AllowsNodePool(job.NodePool) {
		broken = append(broken, fmt.Sprintf("namespace %q does not allow jobs to use node pool %q", n.Name, job.NodePool))
	}
	for _, tg := range job.TaskGroups {
		for _, network := range tg.Networks {
			mode := network.Mode
			if mode == "" {
				mode = "host"
			}
			if !n.AllowsNetworkMode(mode) {
				broken = append(broken, fmt.Sprintf("used group network mode %q is not allowed in namespace %q", mode, n.Name))
			}
		}
		for _, t := range tg.Tasks {
			if !n.AllowsDriver(t.Driver) {
				broken = append(broken, fmt.Sprintf("used task driver %q is not allowed in namespace %q", t.Driver, n.Name))
			}
		}
	}
	slices.Sort(broken)
	if broken = slices.Compact(broken); len(broken) == 0 {
		return nil
	}
	return errors.New(strings.Join(broken, "; "))
}

// Validate returns an error if the namespace's rules themselves are invalid.
func (n *Namespace) Validate() error {
	var p ValidationError
	n.SchedulerConfiguration.validate(&p, fmt.Sprintf("scheduler_config of namespace %q", n.Name))
	c := n.NodePoolConfiguration
	if c == nil {
		return p.err()
	}
	if c.Allowed != nil && c.Denied != nil {
		p.addf("node_pool_config of namespace %q has both allowed and denied; keep one of them", n.Name)
	}
	if c.Default != "" && strings.Contains(c.Default, "*") {
		p.addf("node_pool_config of namespace %q: the default %q must be the name of one pool", n.Name, c.Default)
	}
	return p.err()
}
