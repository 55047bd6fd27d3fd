// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template

// refusedFunctions are known to the reference but not offered here: naming one is
// an error that says why, with its line, instead of an unknown name.
func refusedFunctions() map[string]function {
	out := map[string]function{}
	refuse := func(why string, names ...string) {
		for _, name := range names {
			out[name] = function{fn: func(...any) string { return "" }, deny: why}
		}
	}
	refuse("templates start no programs and write no files beside their own", "plugin", "writeToFile")
	refuse("of Consul's functions only key, keyOrDefault, keyExists, ls, safeLs, tree, safeTree, service and services are offered",
		"keyExistsGet", "connect", "peerings",
		"node", "nodes", "datacenters", "partitions", "caRoots", "caLeaf", "exportedServices", "byMeta")
	refuse("Drover has no client of Vault; use nomadVar", "secret", "secrets", "pkiCert")
	refuse("it is not offered; use toJSONPretty", "spew_dump", "spew_printf", "spew_sdump", "spew_sprintf")
	refuse("it is not offered; use the addresses of the environment, such as NOMAD_IP_label or attr.unique.network.ip-address", "sockaddr")
	return out
}
