// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fingerprint

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/model"
)

// maxCores is the most logical processors of a machine, so that a defective file costs no
// memory.
const maxCores = 1 << 13

// topology returns the NUMA nodes, their distances and their cores as Linux describes them
// below root/sys. A machine that describes none, such as one with another system, has one
// NUMA node with the cores 0 to cores-1.
func topology(root string, cores int) *model.Topology {
	t := &model.Topology{}
	dir := filepath.Join(root, "sys/devices/system/node")
	nodes := readList(filepath.Join(dir, "online"))
	sockets := map[uint16]uint8{}
	of := map[uint16]uint8{} // the NUMA node of each core
	for _, n := range nodes {
		if n > 255 { // in the reference's API, the number of a node has 8 bits
			return single(cores)
		}
		t.Nodes = append(t.Nodes, uint8(n))
		at := filepath.Join(dir, "node"+strconv.Itoa(n))
		t.Distances = append(t.Distances, readDistances(filepath.Join(at, "distance")))
		for _, c := range readList(filepath.Join(at, "cpulist")) {
			of[uint16(c)] = uint8(n)
			sockets[uint16(c)] = uint8(max(0, readNumber(filepath.Join(root, fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/physical_package_id", c)))))
		}
	}
	if len(of) == 0 {
		return single(cores)
	}
	for _, c := range slices.Sorted(maps.Keys(of)) {
		t.Cores = append(t.Cores, model.Core{ID: c, NodeID: of[c], SocketID: sockets[c]})
	}
	for i, row := range t.Distances {
		if len(row) != len(t.Nodes) { // not a table: nothing is known
			t.Distances = nil
			break
		}
		t.Distances[i] = row
	}
	return t
}

// single returns a topology of one NUMA node.
func single(cores int) *model.Topology {
	t := &model.Topology{Nodes: []uint8{0}}
	for c := range uint16(min(cores, maxCores)) {
		t.Cores = append(t.Cores, model.Core{ID: c})
	}
	return t
}

// readList reads a list of numbers such as "0-3,8".
func readList(path string) []int {
	body, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var out []int
	for part := range strings.SplitSeq(strings.TrimSpace(string(body)), ",") {
		lo, hi, isRange := strings.Cut(part, "-")
		if !isRange {
			hi = lo
		}
		a, errA := strconv.ParseUint(lo, 10, 16)
		b, errB := strconv.ParseUint(hi, 10, 16)
		if errA != nil || errB != nil || b < a || b >= maxCores {
			continue
		}
		for n := a; n <= b; n++ {
			out = append(out, int(n))
		}
	}
	return out
}

// formatList is the inverse of readList.
func formatList(all []uint16) string {
	var out []string
	for i := 0; i < len(all); {
		j := i
		for j+1 < len(all) && all[j+1] == all[j]+1 {
			j++
		}
		part := strconv.Itoa(int(all[i]))
		if j > i {
			part += "-" + strconv.Itoa(int(all[j]))
		}
		out = append(out, part)
		i = j + 1
	}
	return strings.Join(out, ",")
}

func readDistances(path string) model.ByteList {
	body, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var out model.ByteList
	for f := range strings.FieldsSeq(string(body)) {
		d, err := strconv.ParseUint(f, 10, 8)
		if err != nil {
			return nil
		}
		out = append(out, uint8(d))
	}
	return out
}

// readNumber returns the number in a file, -1 if there is none.
func readNumber(path string) int {
	body, err := os.ReadFile(path)
	if err != nil {
		return -1
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(body)), 10, 32)
	if err != nil {
		return -1
	}
	return int(n)
}

// PCINode returns the NUMA node to which a device of the PCI bus is attached. The address
// has the form of Linux, 0000:3b:00.0, or with a domain of 8 digits, as NVIDIA writes it.
// It returns false if the machine does not tell, as many machines with one NUMA node do
// not.
func PCINode(address string) (node int, ok bool) { return pciNode("/", address) }

func pciNode(root, address string) (int, bool) {
	domain, rest, cut := strings.Cut(strings.ToLower(address), ":")
	if !cut || strings.ContainsAny(address, "/\\") {
		return 0, false
	}
	if len(domain) == 8 {
		domain = strings.TrimPrefix(domain, "0000")
	}
	n := readNumber(filepath.Join(root, "sys/bus/pci/devices", domain+":"+rest, "numa_node"))
	return n, n >= 0
}
