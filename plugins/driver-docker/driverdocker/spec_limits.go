// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"

	"github.com/drover-project/drover/sdk/isolation"
)

// dockerCaps are the daemon's default capabilities of a container.
var dockerCaps = []string{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE",
	"NET_RAW", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}

const allCaps = "ALL"

// rights are the steps that set the privileges of the container.
var rights = []func(specInput, *container.HostConfig) error{privileged, grantedCaps, securityOptions, ociRuntime}

func privileged(in specInput, host *container.HostConfig) error {
	if in.config.Privileged {
		if !in.agent.AllowPrivileged {
			return forbiddenf("privileged", "privileged containers are not allowed on this node; the operator can allow them with allow_privileged in the agent's plugin \"docker\" config")
		}
		host.Privileged = true
	}
	return nil
}

func grantedCaps(in specInput, host *container.HostConfig) error {
	if err := isolation.CheckCapabilities(in.config.CapAdd); err != nil {
		return invalidf("cap_add", "%w", err)
	}
	if err := isolation.CheckCapabilities(in.config.CapDrop); err != nil {
		return invalidf("cap_drop", "%w", err)
	}
	caps, err := capabilities(in.agent.AllowCaps, in.config.CapAdd, in.config.CapDrop)
	if err != nil {
		return err
	}
	if !host.Privileged {
		host.CapDrop, host.CapAdd = []string{allCaps}, caps
	}
	return nil
}

func ociRuntime(in specInput, host *container.HostConfig) error {
	host.Runtime = in.config.Runtime
	return allowRuntime(in.agent, host.Runtime)
}

// safeOptions are the values of security_opt that do not weaken the protection.
var safeOptions = []string{"no-new-privileges", "no-new-privileges=true", "seccomp=builtin", "apparmor=docker-default"}

// securityOptions checks security_opt. An option that removes a filter or profile,
// or replaces it with the task's own, requires the operator's permission.
func securityOptions(in specInput, _ *container.HostConfig) error {
	agent := in.agent
	for _, o := range in.config.SecurityOpt {
		same := func(other string) bool { return securityOption(other) == securityOption(o) }
		if !agent.AllowPrivileged && !slices.ContainsFunc(safeOptions, same) && !slices.ContainsFunc(agent.AllowSecurityOpt, same) {
			return forbiddenf("security_opt", "%q is not allowed on this node; the operator can allow it with allow_security_opt or allow_privileged in the agent's plugin \"docker\" config", o)
		}
	}
	return nil
}

// securityOption normalizes an option to NAME=VALUE; the daemon also accepts
// NAME:VALUE.
func securityOption(o string) string {
	if strings.Contains(o, "=") {
		return o
	}
	return strings.Replace(o, ":", "=", 1)
}

func allowRuntime(agent agentConfig, name string) error {
	if name != "" && !slices.Contains(agent.AllowRuntimes, name) {
		return forbiddenf("runtime", "%q is not among the runtimes %v that this node allows; the operator can add it to allow_runtimes in the agent's plugin \"docker\" config", name, agent.AllowRuntimes)
	}
	return nil
}

// capabilities returns the capabilities of a task: the daemon's default ones that
// the operator allows, minus drop, plus add.
func capabilities(allow, add, drop []string) ([]string, error) {
	allow, add, drop = capNames(allow), capNames(add), capNames(drop)
	anything := slices.Contains(allow, allCaps)
	var denied, out []string
	for _, name := range add {
		if !anything && !slices.Contains(allow, name) {
			denied = append(denied, strings.ToLower(name))
		}
	}
	if len(denied) > 0 {
		return nil, forbiddenf("cap_add", "the capabilities %s are not allowed on this node; the operator can add them to allow_caps in the agent's plugin \"docker\" config", strings.Join(denied, ", "))
	}
	if slices.Contains(add, allCaps) {
		out = []string{allCaps}
		return out, nil
	}
	for _, name := range dockerCaps {
		if (anything || slices.Contains(allow, name)) && !slices.Contains(drop, name) && !slices.Contains(drop, allCaps) {
			out = append(out, name)
		}
	}
	out = append(out, add...)
	slices.Sort(out)
	return slices.Compact(out), nil
}

// capNames normalizes the names of capabilities to the form CHOWN.
func capNames(list []string) []string {
	out := make([]string, len(list))
	for i, name := range list {
		out[i] = strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(name)), "CAP_")
	}
	return out
}

const (
	mib = 1 << 20
	// Limits of the kernel for quotas and periods, in microseconds.
	minQuota  = 1000
	minPeriod = 1000
	maxPeriod = 1000000
)

// limits are the steps that set the resource limits.
var limits = []func(specInput, *container.HostConfig) error{memory, cpu, sizes, oomScore, userLimits}

// sizes sets the limits of processes and of shared memory.
func sizes(in specInput, host *container.HostConfig) error {
	switch limit := in.agent.PidsLimit; {
	case in.config.ShmSize < 0:
		return invalidf("shm_size", "%d is less than zero; it is in bytes", in.config.ShmSize)
	case in.config.PidsLimit < 0:
		return invalidf("pids_limit", "%d is less than zero; leave it out for the node's own", in.config.PidsLimit)
	case limit > 0 && in.config.PidsLimit > limit:
		return invalidf("pids_limit", "%d is more than the %d that this node allows", in.config.PidsLimit, limit)
	case in.config.PidsLimit > 0:
		host.PidsLimit = &in.config.PidsLimit
	case limit > 0:
		host.PidsLimit = &limit
	}
	return nil
}

func oomScore(in specInput, host *container.HostConfig) error {
	host.OomScoreAdj = in.agent.OOMScoreAdj
	if in.config.OOMScoreAdj != nil {
		host.OomScoreAdj = *in.config.OOMScoreAdj
	}
	if host.OomScoreAdj < -1000 || host.OomScoreAdj > 1000 {
		return invalidf("oom_score_adj", "%d is not between -1000 and 1000", host.OomScoreAdj)
	}
	return nil
}

func userLimits(in specInput, host *container.HostConfig) (err error) {
	host.Ulimits, err = ulimits(merged(in.config.Ulimit))
	return err
}

// memory sets the memory limit. If memory_max is set it is the limit, and memory is
// the reservation.
func memory(in specInput, host *container.HostConfig) error {
	reserved, most := in.task.Resources.MemoryMB, in.task.Resources.MemoryMaxMB
	if most == 0 {
		most = in.config.MemoryHardLimit
	}
	if most != 0 && most < reserved {
		return invalidf("memory_hard_limit", "%d MiB is less than the task's memory of %d MiB", most, reserved)
	}
	host.Memory = reserved * mib
	if most > reserved {
		host.Memory, host.MemoryReservation = most*mib, reserved*mib
	}
	if in.host.os != "windows" {
		host.MemorySwap = host.Memory // no swap
	}
	return nil
}

// has reports whether the daemon's machine has these cores: it may be another one.
func (in *specInput) has(cores []int) bool {
	return len(cores) > 0 && slices.Max(cores) < in.host.cpus
}

func cpu(in specInput, host *container.HostConfig) error {
	r := in.task.Resources
	if in.host.os == "windows" {
		host.CPUPercent = int64(r.CPUPercent)
		return nil
	}
	host.CPUShares = min(max(r.CPUMHz, 2), 262144)
	host.CpusetCpus = in.config.CpusetCPUs
	if len(r.Cores) > 0 {
		if in.config.CpusetCPUs != "" {
			return invalidf("cpuset_cpus", "the task has cores assigned by resources.cores; use one of the two")
		}
		host.CpusetCpus = cpuset(r.Cores)
	} else if in.config.CpusetCPUs == "" && in.has(r.SharedCores) {
		host.CpusetCpus = cpuset(r.SharedCores)
	}
	if !in.config.CPUHardLimit {
		return nil
	}
	if p := in.config.CPUCFSPeriod; p < minPeriod || p > maxPeriod {
		return invalidf("cpu_cfs_period", "%d is not between %d and %d microseconds", p, minPeriod, maxPeriod)
	}
	host.CPUPeriod = in.config.CPUCFSPeriod
	host.CPUQuota = max(int64(r.CPUPercent/100*float64(host.CPUPeriod)*float64(max(in.host.cpus, 1))), minQuota)
	return nil
}

func cpuset(cores []int) string {
	list := make([]string, len(cores))
	for i, c := range slices.Sorted(slices.Values(cores)) {
		list[i] = strconv.Itoa(c)
	}
	return strings.Join(list, ",")
}

// ulimitNames are the resource limits of the kernel.
var ulimitNames = []string{
	"as", "core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc", "rss", "rtprio", "rttime", "sigpending", "stack",
}

// ulimits parses limits of the form SOFT:HARD, or a single number for both.
func ulimits(byName map[string]string) ([]*container.Ulimit, error) {
	var out []*container.Ulimit
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		text := byName[name]
		if !slices.Contains(ulimitNames, name) {
			return nil, invalidf("ulimit", "there is no limit %q; known are %s", name, strings.Join(ulimitNames, ", "))
		}
		soft, hard, both := strings.Cut(text, ":")
		if !both {
			hard = soft
		}
		s, err := strconv.ParseInt(strings.TrimSpace(soft), 10, 64)
		h, err2 := strconv.ParseInt(strings.TrimSpace(hard), 10, 64)
		if err != nil || err2 != nil || h >= 0 && s > h {
			return nil, invalidf("ulimit", "%s = %q is not a limit; write it as \"1024\" or \"1024:2048\", the soft one first", name, text)
		}
		out = append(out, &container.Ulimit{Name: name, Soft: s, Hard: h})
	}
	return out, nil
}

// joinPath formats a path in a directory for error texts.
func joinPath(dir, rel string) string { return fmt.Sprintf("%s in %s", rel, dir) }
