// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/cli"

	"github.com/drover-project/drover/core/nearest"
)

const (
	noAccessControl = "access control is not implemented yet: everyone who reaches the agent may do everything; restrict access with tls { verify_https_client = true } or a firewall"
	noLicence       = "Drover needs no licence: all features are available"
)

// missingFamilies lists the first words of the reference's commands that Drover does
// not have, with the reason. A test compares it with the reference's commands.
var missingFamilies = map[string]string{
	"acl": noAccessControl, "login": noAccessControl, "license": noLicence,
	"quota":          "quotas are not implemented yet; limit jobs by the resources of a node pool",
	"recommendation": "recommendations are not implemented; for the resource usage of tasks see: drover operator metrics, drover alloc status -stats",
	"sentinel":       "Sentinel policies are not implemented; node pools, namespaces and reject_job_registration restrict which jobs may run",
	"setup":          "Consul and Vault are set up with their own tools: docs/consul.md says which auth method and binding rules jobs log in with at Consul; jobs get no tokens of Vault yet",
}

// Missing returns why Drover does not have the command that the arguments name, and
// what to do instead. It returns "" if the command may exist.
func Missing(commands map[string]cli.CommandFactory, args []string) string {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return ""
	}
	for name := range commands {
		if name == args[0] || strings.HasPrefix(name, args[0]+" ") {
			return "" // a command group prints this itself
		}
	}
	return missing(strings.Join(args, " "), args[0], commands)
}

// missing explains why there is no command name, and proposes one of the commands that there
// are; line is the command line that was typed.
func missing(line, name string, commands map[string]cli.CommandFactory) string {
	for _, family := range slices.Sorted(maps.Keys(missingFamilies)) {
		if line == family || strings.HasPrefix(line, family+" ") {
			return fmt.Sprintf("drover has no command %q: %s", family, missingFamilies[family])
		}
	}
	if meant := nearest.Of(name, siblings(commands, strings.Count(name, " "))); meant != "" {
		return fmt.Sprintf("drover has no command %q; did you mean: drover %s", name, meant)
	}
	return fmt.Sprintf("drover has no command %q; list all commands with: drover -help", name)
}

// siblings returns the names of commands and their groups that have this number of spaces.
func siblings(commands map[string]cli.CommandFactory, spaces int) []string {
	var out []string
	for name := range commands {
		if words := strings.Fields(name); len(words) > spaces {
			out = append(out, strings.Join(words[:spaces+1], " "))
		}
	}
	return out
}
