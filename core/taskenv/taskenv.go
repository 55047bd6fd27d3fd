// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package taskenv owns the NOMAD_* variables, the environment with which a task
// starts, and the replacement of ${...} in config, environment and services. It reads
// nothing from the machine: the host's environment is an argument. Nodes and core/services
// import it.
package taskenv

import (
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/model"
)

// Input is everything that determines the environment of a task.
type Input struct {
	Node  *model.Node
	Alloc *model.Allocation // with its Job
	Task  *model.Task

	Region       string
	AllocDir     string // path in the task's view
	TaskDir      string
	SecretsDir   string
	ParentCgroup string

	// Address is the address of the alloc in a network of its own; "" if it has none.
	Address string

	// Devices are the variables that name the task's devices to it.
	Devices map[string]string

	// CSIEndpoint is the socket that a task that is a CSI driver makes; "" for others.
	CSIEndpoint string

	// Rendered are the variables of the task's templates. They have the highest
	// precedence.
	Rendered map[string]string
	// Secret are the variables whose values are secrets. No name is in both maps.
	Secret map[string]string

	// HostEnv is the environment that tasks without an image inherit, in the form of
	// os.Environ, except the variables in HostDenylist (nil: DefaultDenylist).
	HostEnv      []string
	HostDenylist []string
}

// DefaultDenylist names the variables that a task does not inherit from the agent.
var DefaultDenylist = []string{
	"CONSUL_TOKEN", "CONSUL_HTTP_TOKEN", "CONSUL_HTTP_TOKEN_FILE", "NOMAD_TOKEN", "DROVER_TOKEN", "VAULT_TOKEN",
	"CONSUL_LICENSE", "NOMAD_LICENSE", "VAULT_LICENSE",
	"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS",
}

// Env is the environment of a task, and the names that ${...} may use.
type Env struct {
	vars   map[string]string // the task's environment, without secret
	secret map[string]string
	facts  map[string]string // node.*, attr.*, meta.*, device.*
}

// Build builds the environment. Later sources have precedence: host, NOMAD_*
// variables, meta and the task's env block (both after replacement of ${...}), templates.
func Build(in Input) *Env {
	e := &Env{vars: hostVars(in.HostEnv, in.HostDenylist), facts: facts(in.Node, in.Region)}
	own := map[string]string{}
	addIdentity(own, in)
	addResources(own, in)
	addPorts(own, in)
	maps.Copy(own, in.Devices)
	if in.CSIEndpoint != "" {
		own["CSI_ENDPOINT"] = in.CSIEndpoint
	}
	maps.Copy(e.vars, own)
	e.addMeta(in.Alloc.Job, in.Alloc.TaskGroup, in.Task)
	builtin := &Env{vars: maps.Clone(e.vars), facts: e.facts}
	for k, v := range in.Task.Env {
		e.vars[builtin.Replace(k)] = builtin.Replace(v)
	}
	maps.Copy(e.vars, in.Rendered)
	e.secret = in.Secret
	for name := range in.Secret {
		delete(e.vars, name)
	}
	return e
}

// Map returns the environment without the secrets; it must not be changed.
func (e *Env) Map() map[string]string { return e.vars }

// Secrets returns the variables whose values are secrets; it must not be changed.
func (e *Env) Secrets() map[string]string { return e.secret }

// All returns the environment and the facts of the node, as ${...} names them.
func (e *Env) All() map[string]string {
	out := maps.Clone(e.facts)
	maps.Copy(out, e.vars)
	maps.Copy(out, e.secret)
	return out
}

// List returns the environment as KEY=VALUE, sorted.
func (e *Env) List() []string {
	out := make([]string, 0, len(e.vars)+len(e.secret))
	for k, v := range e.secret {
		out = append(out, k+"="+v)
	}
	for k, v := range e.vars {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}

func hostVars(environ, denylist []string) map[string]string {
	if denylist == nil {
		denylist = DefaultDenylist
	}
	out := make(map[string]string, len(environ)+40)
	for _, kv := range environ {
		k, v, ok := strings.Cut(kv, "=")
		if ok && k != "" && !slices.Contains(denylist, k) {
			out[k] = v
		}
	}
	return out
}

func addIdentity(env map[string]string, in Input) {
	a, j := in.Alloc, in.Alloc.Job
	set := func(k, v string) {
		if v != "" {
			env["NOMAD_"+k] = v
		}
	}
	set("ALLOC_ID", a.ID)
	set("SHORT_ALLOC_ID", a.ID[:min(8, len(a.ID))])
	set("ALLOC_NAME", a.Name)
	if i := a.Index(); i >= 0 {
		set("ALLOC_INDEX", strconv.Itoa(i))
	}
	set("TASK_NAME", in.Task.Name)
	set("GROUP_NAME", a.TaskGroup)
	set("JOB_ID", j.ID)
	set("JOB_NAME", j.Name)
	set("JOB_PARENT_ID", j.ParentID)
	set("NAMESPACE", a.Namespace)
	set("REGION", in.Region)
	if in.Node != nil {
		set("DC", in.Node.Datacenter)
	}
	set("ALLOC_DIR", in.AllocDir)
	set("TASK_DIR", in.TaskDir)
	set("SECRETS_DIR", in.SecretsDir)
	set("PARENT_CGROUP", in.ParentCgroup)
}

func addResources(env map[string]string, in Input) {
	ar := in.Alloc.AllocatedResources
	if ar == nil || ar.Tasks[in.Task.Name] == nil {
		return
	}
	r := ar.Tasks[in.Task.Name]
	env["NOMAD_CPU_LIMIT"] = strconv.FormatInt(r.Cpu.CpuShares, 10)
	if len(r.Cpu.ReservedCores) > 0 {
		env["NOMAD_CPU_CORES"] = Cpuset(r.Cpu.ReservedCores)
	}
	env["NOMAD_MEMORY_LIMIT"] = strconv.FormatInt(r.Memory.MemoryMB, 10)
	if r.Memory.MemoryMaxMB > 0 {
		env["NOMAD_MEMORY_MAX_LIMIT"] = strconv.FormatInt(r.Memory.MemoryMaxMB, 10)
	}
}

// Cpuset formats cores like the kernel: 0-2,5.
func Cpuset[Core int | uint16](cores []Core) string {
	sorted := slices.Sorted(slices.Values(cores))
	var parts []string
	for i := 0; i < len(sorted); {
		j := i
		for j+1 < len(sorted) && sorted[j+1] == sorted[j]+1 {
			j++
		}
		part := strconv.Itoa(int(sorted[i]))
		if j > i {
			part += "-" + strconv.Itoa(int(sorted[j]))
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}

func addPorts(env map[string]string, in Input) {
	ar := in.Alloc.AllocatedResources
	if ar == nil {
		return
	}
	for _, p := range ar.Shared.Ports {
		addPort(env, Clean(p.Label), p.HostIP, p.Value, p.To, in.Address)
	}
	for name, t := range ar.Tasks { // networks of tasks, which only older jobs have
		prefix := ""
		if name != in.Task.Name {
			prefix = Clean(name) + "_"
		}
		for _, n := range t.Networks {
			for _, p := range slices.Concat(n.ReservedPorts, n.DynamicPorts) {
				addPort(env, prefix+Clean(p.Label), n.IP, p.Value, p.To, "")
			}
		}
	}
}

// addPort adds the variables of a port. own is the address of the group in its own network;
// "" if it has none.
func addPort(env map[string]string, label, ip string, value, to int, own string) {
	port := strconv.Itoa(value)
	inside := port
	if to > 0 {
		inside = strconv.Itoa(to)
	}
	env["NOMAD_IP_"+label] = ip
	env["NOMAD_PORT_"+label] = inside
	env["NOMAD_ADDR_"+label] = net.JoinHostPort(ip, port)
	env["NOMAD_HOST_IP_"+label] = ip
	env["NOMAD_HOST_PORT_"+label] = port
	env["NOMAD_HOST_ADDR_"+label] = net.JoinHostPort(ip, port)
	env["NOMAD_ALLOC_PORT_"+label] = inside
	if own != "" {
		env["NOMAD_ALLOC_IP_"+label] = own
		env["NOMAD_ALLOC_ADDR_"+label] = net.JoinHostPort(own, inside)
	}
}

// addMeta adds the meta of job, group and task, the innermost with precedence, under
// its name and in upper case. ${...} in it names what is in the environment so far: not
// other meta, whose order would matter.
func (e *Env) addMeta(job *model.Job, group string, task *model.Task) {
	levels := []map[string]string{job.Meta, nil, task.Meta}
	if tg := job.LookupTaskGroup(group); tg != nil {
		levels[1] = tg.Meta
	}
	meta := map[string]string{}
	for _, level := range levels {
		for k, v := range level {
			name, value := Clean(k), e.Replace(v)
			meta["NOMAD_META_"+strings.ToUpper(name)] = value
			meta["NOMAD_META_"+name] = value
		}
	}
	maps.Copy(e.vars, meta)
}

// Clean converts a name to a valid environment variable name.
func Clean(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
			return r
		}
		return '_'
	}, name)
}

// TaskPaths returns the paths at which a task without file system isolation sees its
// folders.
func TaskPaths(allocPath, task string) (alloc, local, secrets string) {
	return filepath.Join(allocPath, "alloc"), filepath.Join(allocPath, task, "local"), filepath.Join(allocPath, task, "secrets")
}
