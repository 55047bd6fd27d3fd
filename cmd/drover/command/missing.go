// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/cli"
)

const (
	noAccessControl = "there is no access control yet, so there is nobody to log in as and nothing to allow: whoever reaches the agent may do everything; close it with tls { verify_https_client = true } or a firewall"
	noVolumes       = "there are no volumes that outlive an allocation yet; use host_volume blocks of the agent's configuration"
	noGossip        = "this version has one server and thus no gossip to encrypt; the keys of variables are at: drover operator root keyring list"
	noLicence       = "there is no licence and nothing that one would switch on"
)

// missingFamilies are commands of the reference of which there is none here, by how
// they begin, and why. A test holds the list against the reference's commands.
var missingFamilies = map[string]string{
	"acl": noAccessControl, "login": noAccessControl, "volume": noVolumes, "license": noLicence,
	"operator gossip keyring install": noGossip, "operator gossip keyring list": noGossip,
	"operator gossip keyring remove": noGossip, "operator gossip keyring use": noGossip,
	"quota":          "there are no quotas yet; bound jobs by the resources of a node pool",
	"recommendation": "there are no recommendations; operator metrics and alloc status -stats show what tasks use",
	"sentinel":       "there are no policies for jobs; node pools, namespaces and reject_job_registration restrict what may run",
	"setup":          "there is no Consul and no Vault integration to set up",
	"tls":            "certificates are not made here; make them with your own authority (openssl, step) and name them in the tls block of the agent's configuration",
}

// Missing says why there is no command of the name that arguments begin with, and
// what to do instead. It returns "" if there may be one.
func Missing(commands map[string]cli.CommandFactory, args []string) string {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return ""
	}
	for name := range commands {
		if name == args[0] || strings.HasPrefix(name, args[0]+" ") {
			return "" // a group says itself what is not in it
		}
	}
	return missing(strings.Join(args, " "), args[0])
}

// missing explains the absence of name; line is what was typed.
func missing(line, name string) string {
	for _, family := range slices.Sorted(maps.Keys(missingFamilies)) {
		if line == family || strings.HasPrefix(line, family+" ") {
			return fmt.Sprintf("drover has no command %q: %s", family, missingFamilies[family])
		}
	}
	return fmt.Sprintf("drover has no command %q; for those that there are: drover -help", name)
}
