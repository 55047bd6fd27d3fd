// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package devicenvidia

import (
	"io"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"
)

// cdiKind is the kind of the GPUs in specifications of the Container Device
// Interface that nvidia-ctk writes
// (https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md).
const cdiKind = "nvidia.com/gpu"

// cdiDirs are the directories of CDI specifications. The files are YAML or JSON,
// which is a subset of YAML.
var cdiDirs = []string{"/etc/cdi", "/var/run/cdi"}

// cdiLimit is the number of bytes read of a specification.
const cdiLimit = 4 << 20

// cdiNames returns the CDI names of the chosen devices. If one of them has no name
// it returns nil, so that the driver uses another method instead of passing only
// some of the GPUs. The specifications are read each time, because nvidia-ctk
// rewrites them on every change.
func (d *Device) cdiNames(chosen []found) []string {
	known := map[string]bool{}
	for _, dir := range cdiDirs {
		for _, pattern := range []string{"*.yaml", "*.yml", "*.json"} {
			files, _ := filepath.Glob(filepath.Join(d.root+dir, pattern)) // the pattern is valid
			for _, f := range files {
				d.readCDI(f, known)
			}
		}
	}
	var out []string
	for _, one := range chosen {
		switch {
		case known[one.id]:
			out = append(out, cdiKind+"="+one.id)
		case known[one.index]:
			out = append(out, cdiKind+"="+one.index)
		default:
			return nil
		}
	}
	return out
}

func (d *Device) readCDI(path string, into map[string]bool) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	var spec struct {
		Kind    string `yaml:"kind"`
		Devices []struct {
			Name string `yaml:"name"`
		} `yaml:"devices"`
	}
	if err := yaml.NewDecoder(io.LimitReader(f, cdiLimit)).Decode(&spec); err != nil {
		d.log.Warn("a specification of the Container Device Interface cannot be read", "file", path, "error", err)
		return
	}
	if spec.Kind != cdiKind {
		return
	}
	for _, one := range spec.Devices {
		into[one.Name] = true
	}
}
