// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/core/model"
)

// ReservedCores returns the cores that no task gets; Finish has validated them.
func (c *Client) ReservedCores() []uint16 {
	cores, _ := parseCores(c.Reserved.Cores)
	return cores
}

// CoresForTasks returns the cores that tasks may reserve exclusively, nil for all;
// Finish has validated them.
func (c *Client) CoresForTasks() []uint16 {
	cores, _ := parseCores(c.ReservableCores)
	return cores
}

// parseCores parses a set of cores such as "0-3,7"; nil for empty text.
func parseCores(text string) ([]uint16, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var out []uint16
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			high = low
		}
		from, err := strconv.ParseUint(low, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("%q is not a core", part)
		}
		to, err := strconv.ParseUint(high, 10, 16)
		if err != nil || to < from || to == math.MaxUint16 {
			return nil, fmt.Errorf("%q is not a range of cores", part)
		}
		for core := from; core <= to; core++ {
			out = append(out, uint16(core))
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// capacityProblems lists the invalid values of the node's resources.
func (c *Client) capacityProblems() []string {
	var out []string
	for key, text := range map[string]string{"client.reserved.cores": c.Reserved.Cores, "client.reservable_cores": c.ReservableCores} {
		if _, err := parseCores(text); err != nil {
			out = append(out, fmt.Sprintf("%s %q is not a set of cores such as \"0-3,7\": %v", key, text, err))
		}
	}
	for key, n := range map[string]int{
		"cpu_total_compute": c.CPUTotalCompute, "memory_total_mb": c.MemoryTotalMB, "disk_total_mb": c.DiskTotalMB, "disk_free_mb": c.DiskFreeMB,
		"reserved.cpu": c.Reserved.CPU, "reserved.memory": c.Reserved.MemoryMB, "reserved.disk": c.Reserved.DiskMB,
	} {
		if n < 0 {
			out = append(out, fmt.Sprintf("client.%s %d must not be negative", key, n))
		}
	}
	out = append(out, portsProblem("client.reserved.reserved_ports", c.Reserved.Ports)...)
	for _, name := range slices.Sorted(maps.Keys(c.HostNetworks)) {
		out = append(out, c.HostNetworks[name].problems(fmt.Sprintf("client.host_network %q", name))...)
	}
	return out
}

// problems lists the invalid values of a host network.
func (h HostNetwork) problems(key string) (out []string) {
	if h.CIDR == "" && h.Interface == "" {
		out = append(out, key+" needs a cidr, an interface or both, to say which addresses belong to it")
	}
	if _, err := netip.ParsePrefix(h.CIDR); h.CIDR != "" && err != nil {
		out = append(out, fmt.Sprintf("%s: cidr %q is not a block of addresses such as \"10.0.0.0/8\"", key, h.CIDR))
	}
	return append(out, portsProblem(key+": reserved_ports", h.ReservedPorts)...)
}

// portsProblem returns a problem unless text is a list of ports and ranges of ports.
func portsProblem(key, text string) []string {
	if text == "" {
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		if _, _, ok := model.PortRange(part); !ok {
			return []string{fmt.Sprintf("%s %q is not a list of ports such as \"22,8000-8010\"", key, text)}
		}
	}
	return nil
}

// minHeartbeatTTL is the shortest allowed lease of a node: shorter ones would expire
// while a machine is merely busy.
const minHeartbeatTTL = time.Second

// heartbeatProblems lists the invalid values of nodes' leases.
func (s *Server) heartbeatProblems() []string {
	var out []string
	if d := Duration(s.MinHeartbeatTTL, minHeartbeatTTL); 0 <= d && d < minHeartbeatTTL {
		out = append(out, fmt.Sprintf("server.min_heartbeat_ttl %q must be %s or more", s.MinHeartbeatTTL, minHeartbeatTTL))
	}
	return out
}

// problems lists the invalid limits of connections.
func (l *Limits) problems() []string {
	var out []string
	for _, timeout := range []struct{ key, value string }{
		{"rpc_handshake_timeout", l.RPCHandshakeTimeout}, {"https_handshake_timeout", l.HTTPSHandshakeTimeout},
	} {
		if d := Duration(timeout.value, time.Second); d == 0 {
			out = append(out, fmt.Sprintf("limits.%s %q must be longer than 0", timeout.key, timeout.value))
		}
	}
	return out
}

// PlanRejectionTracker makes nodes ineligible that refuse NodeThreshold plans (100 by
// default) within NodeWindow (5m by default).
type PlanRejectionTracker struct {
	Enabled       bool   `json:"enabled,omitempty"`
	NodeThreshold int    `json:"node_threshold,omitempty"`
	NodeWindow    string `json:"node_window,omitempty"`
}

// Limits returns the number of plans, 0 if they are not counted, and the time within which.
func (t *PlanRejectionTracker) Limits() (threshold int, window time.Duration) {
	if !t.Enabled {
		return 0, 0
	}
	return cmp.Or(t.NodeThreshold, 100), Duration(t.NodeWindow, 5*time.Minute)
}

// problems lists the invalid values.
func (t *PlanRejectionTracker) problems() (out []string) {
	if t.NodeThreshold < 0 || t.NodeThreshold > maxPlanRejections {
		out = append(out, fmt.Sprintf("server.plan_rejection_tracker.node_threshold %d must be between 1 and %d", t.NodeThreshold, maxPlanRejections))
	}
	if d := Duration(t.NodeWindow, time.Minute); d == 0 {
		out = append(out, fmt.Sprintf("server.plan_rejection_tracker.node_window %q must be longer than 0", t.NodeWindow))
	}
	return out
}

// maxPlanRejections is the largest threshold, since each refusal is remembered.
const maxPlanRejections = 10_000
