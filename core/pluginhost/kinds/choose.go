// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package kinds

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
)

// choose returns which of a plugin's contracts this host uses: for each kind, the newest
// version that both support. A host supports the newest version of a contract and the one
// before, and a plugin may serve several, so either side can be upgraded first. Kinds that
// the host does not know are ignored. mismatches are kinds without a common version; it is
// an error only if no contract remains.
func choose(serves, known []plugin.Kind) (chosen []plugin.Kind, mismatches []string, err error) {
	for _, name := range kindNames(serves) {
		theirs, ours := versionsOf(serves, name), versionsOf(known, name)
		common := slices.DeleteFunc(slices.Clone(theirs), func(v int) bool { return !slices.Contains(ours, v) })
		switch {
		case len(ours) == 0:
		case len(common) == 0:
			mismatches = append(mismatches, mismatch(name, theirs, ours))
		default:
			chosen = append(chosen, plugin.Kind{Name: name, Version: slices.Max(common)})
		}
	}
	if len(chosen) > 0 {
		return chosen, mismatches, nil
	}
	cure := "install a version of the plugin that fits"
	if len(mismatches) > 0 {
		cure = strings.Join(mismatches, "; ")
	}
	return nil, nil, errdefs.FailedPreconditionf("serves %v, and this agent knows %v; %s", serves, known, cure)
}

// mismatch says which side is older.
func mismatch(name string, theirs, ours []int) string {
	if slices.Min(theirs) > slices.Max(ours) {
		return fmt.Sprintf("the plugin is made for agents with %s v%d: upgrade this agent, or install a version of the plugin with %s v%d",
			name, slices.Min(theirs), name, slices.Max(ours))
	}
	return fmt.Sprintf("the plugin's %s v%d is too old: install a version of the plugin with %s v%d", name, slices.Max(theirs), name, slices.Max(ours))
}

func kindNames(kinds []plugin.Kind) []string {
	var out []string
	for _, k := range kinds {
		if !slices.Contains(out, k.Name) {
			out = append(out, k.Name)
		}
	}
	return out
}

func versionsOf(kinds []plugin.Kind, name string) []int {
	var out []int
	for _, k := range kinds {
		if k.Name == name {
			out = append(out, k.Version)
		}
	}
	return out
}
