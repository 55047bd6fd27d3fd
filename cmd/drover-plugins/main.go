// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command drover-plugins holds most first-party plugins in one binary, so that their
// processes share its text in memory. driver-docker and device-nvidia are binaries of their
// own. The name by which it is called selects the plugin: bin/plugins has a link for each.
// "drover-plugins NAME ..." does the same without a link. Each plugin's own package does
// everything else.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-project/drover/plugins/consul/consulplugin"
	"github.com/drover-project/drover/plugins/csi-local/csilocal"
	"github.com/drover-project/drover/plugins/csi/csiplugin"
	"github.com/drover-project/drover/plugins/driver-exec/driverexec"
	"github.com/drover-project/drover/plugins/driver-qemu/driverqemu"
	"github.com/drover-project/drover/plugins/network-bridge/networkbridge"
	"github.com/drover-project/drover/plugins/network-cni/networkcni"
	"github.com/drover-project/drover/plugins/stats-host/statshost"
	_ "github.com/drover-project/drover/sdk/plugin/oneproc" // each process is 0.4 MiB smaller
)

// plugins maps the name of each plugin to its main function. drover-csi-local is none: it is
// a CSI driver, and has its text here all the same.
var plugins = map[string]func() error{
	"consul":           consulplugin.Main,
	"csi":              csiplugin.Main,
	"driver-exec":      driverexec.Main,
	"driver-qemu":      driverqemu.Main,
	"drover-csi-local": csilocal.Main,
	"network-bridge":   networkbridge.Main,
	"network-cni":      networkcni.Main,
	"stats-host":       statshost.Main,
}

func main() {
	run, ok := choose()
	if !ok {
		fmt.Fprintf(os.Stderr, "drover-plugins: run it under the name of a plugin, or with the name as first argument: %s\n",
			strings.Join(slices.Sorted(maps.Keys(plugins)), ", "))
		os.Exit(2)
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func choose() (func() error, bool) {
	if run, ok := plugins[base(os.Args[0])]; ok {
		return run, true
	}
	if len(os.Args) < 2 {
		return nil, false
	}
	run, ok := plugins[base(os.Args[1])]
	os.Args = os.Args[1:]
	return run, ok
}

func base(path string) string { return strings.TrimSuffix(filepath.Base(path), ".exe") }
