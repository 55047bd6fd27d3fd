// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverexec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-project/drover/plugins/internal/cgroup"
	"github.com/drover-project/drover/plugins/internal/supervised"
	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/isolation"
	"github.com/drover-project/drover/sdk/schema"
)

// isolated is the common part of the drivers that isolate their tasks. The drivers
// differ in what a task runs and how it is found.
type isolated struct {
	shared
	agent *supervised.Config[isolatedAgentConfig]
}

func newIsolated(dir string) isolated {
	d := isolated{agent: &supervised.Config[isolatedAgentConfig]{}}
	d.shared = newShared(dir, func(name string) (*supervisor.User, error) {
		agent, _ := d.agent.Get()
		return agent.user(name, 0)
	})
	return d
}

// isolatedAgentConfig is the block plugin "exec" { config { } }, or "java".
type isolatedAgentConfig struct {
	AllowCaps      []string `json:"allow_caps"`
	DefaultPIDMode string   `json:"default_pid_mode"`
	DefaultIPCMode string   `json:"default_ipc_mode"`
	AllowedModes   struct {
		PID []string `json:"pid"`
		IPC []string `json:"ipc"`
	} `json:"allowed_modes"`
	PidsLimit   int64             `json:"pids_limit"`
	NoPivotRoot bool              `json:"no_pivot_root"`
	ChrootEnv   map[string]string `json:"chroot_env"`
	deniedUsers
}

// boxConfig is the part of a task's config block that configures the isolation.
type boxConfig struct {
	WorkDir string   `json:"work_dir"`
	CapAdd  []string `json:"cap_add"`
	CapDrop []string `json:"cap_drop"`
	PIDMode string   `json:"pid_mode"`
	IPCMode string   `json:"ipc_mode"`
	Init    *bool    `json:"init"` // nil means true
}

// Modes of a namespace.
const (
	modePrivate = "private"
	modeHost    = "host"
)

var modes = []string{modePrivate, modeHost}

// defaultPids is the default limit of processes and threads of a task. It stops fork
// bombs, and few programs reach it.
const defaultPids = 4096

// defaultUser runs tasks that do not set a user.
const defaultUser = "nobody"

func isolatedCapabilities() driver.Capabilities {
	return driver.Capabilities{
		SendSignals: true, Exec: true, ExecOptions: execOptions(), SecretEnv: true, FSIsolation: driver.FSIsolationChroot, MountConfigs: true, DefaultUser: defaultUser, DynamicUsers: true,
		NetworkModes: []driver.NetworkMode{driver.NetworkHost, driver.NetworkGroup},
		Ignores:      []string{driver.IgnoresSELinux},
	}
}

func isolatedAgentSchema() schema.Schema {
	caps := make([]any, 0, len(isolation.DefaultCapabilities()))
	for _, c := range isolation.DefaultCapabilities() {
		caps = append(caps, c)
	}
	return schema.Schema{Attributes: append([]schema.Attribute{
		{Name: "allow_caps", Type: schema.ListString, Default: caps, Description: "capabilities that tasks may have, or all"},
		{Name: "default_pid_mode", Type: schema.String, OneOf: modes, Default: modePrivate, Description: "pid namespace of tasks that say nothing: private or host"},
		{Name: "default_ipc_mode", Type: schema.String, OneOf: modes, Default: modePrivate, Description: "ipc namespace of tasks that say nothing: private or host"},
		{Name: "allowed_modes", Type: schema.Block, Default: map[string]any{}, Description: "namespaces of the machine that a task may name, beside the defaults", Block: &schema.Schema{Attributes: []schema.Attribute{
			{Name: "pid", Type: schema.ListString, Default: []any{}, Description: "values of pid_mode"},
			{Name: "ipc", Type: schema.ListString, Default: []any{}, Description: "values of ipc_mode"},
		}}},
		{Name: "pids_limit", Type: schema.Number, Default: defaultPids, Description: "most processes and threads that a task may have; 0 for no limit"},
		{Name: "no_pivot_root", Type: schema.Bool, Default: false, Description: "change the root by chroot, on machines that run from a ram disk"},
		{Name: "chroot_env", Type: schema.MapString, Description: "parts of the machine that tasks see, as path on the machine = path in the task; the usual system directories if empty"},
	}, deniedUsersSchema()...)}
}

func isolationSchema() []schema.Attribute {
	return []schema.Attribute{
		{Name: "work_dir", Type: schema.String, Description: "absolute directory, as the task sees it; / if empty"},
		{Name: "cap_add", Type: schema.ListString, Description: "capabilities besides the default ones; allow_caps must contain them"},
		{Name: "cap_drop", Type: schema.ListString, Description: "capabilities to go without, or all"},
		{Name: "pid_mode", Type: schema.String, OneOf: modes, Description: "private, or host to see all processes of the machine"},
		{Name: "ipc_mode", Type: schema.String, OneOf: modes, Description: "private, or host to share memory and message queues with the machine"},
	}
}

// SetConfig implements driver.Driver.
func (d isolated) SetConfig(_ context.Context, config []byte) error {
	var c isolatedAgentConfig
	if err := schema.Unmarshal(config, &c); err != nil {
		return err
	}
	if err := c.deniedUsers.parse(); err != nil {
		return err
	}
	if err := isolation.CheckCapabilities(c.AllowCaps); err != nil {
		return errdefs.InvalidArgumentf("allow_caps: %w", err)
	}
	for name, mode := range map[string]string{"default_pid_mode": c.DefaultPIDMode, "default_ipc_mode": c.DefaultIPCMode} {
		if _, err := isHost(mode, ""); err != nil {
			return errdefs.InvalidArgumentf("%s: %w", name, err)
		}
	}
	if c.PidsLimit < 0 {
		return errdefs.InvalidArgumentf("pids_limit: %d is less than zero; 0 means no limit", c.PidsLimit)
	}
	for name, list := range map[string][]string{"allowed_modes.pid": c.AllowedModes.PID, "allowed_modes.ipc": c.AllowedModes.IPC} {
		for _, mode := range list {
			if _, err := isHost(mode, ""); err != nil {
				return errdefs.InvalidArgumentf("%s: %w", name, err)
			}
		}
	}
	for from, to := range c.ChrootEnv {
		if err := checkShown(from, to); err != nil {
			return errdefs.InvalidArgumentf("chroot_env: %q = %q: %w", from, to, err)
		}
	}
	d.agent.Set(c)
	return nil
}

// spec converts a task's config to the supervisor's spec, except for the command. check
// returns what is wrong with the config.
func (d isolated) spec(task *driver.TaskConfig, c boxConfig, check func(isolatedAgentConfig) []finding) (supervisor.Spec, error) {
	agent, _ := d.agent.Get()
	invalid := func(err error) (supervisor.Spec, error) {
		return supervisor.Spec{}, errdefs.InvalidArgumentf("task %q: %w", task.Name, err)
	}
	if err := supervised.CheckKillSignal(task); err != nil {
		return invalid(err)
	}
	user, err := agent.user(task.User, task.DynamicUID)
	if err != nil {
		return supervisor.Spec{}, errdefs.New(errdefs.ClassOf(err), fmt.Errorf("task %q: %w", task.Name, err))
	}
	if err := refusal(task.Name, check(agent)); err != nil {
		return supervisor.Spec{}, err
	}
	bounding, named, err := isolation.Capabilities(agent.AllowCaps, c.CapAdd, c.CapDrop)
	if err != nil {
		return invalid(err)
	}
	config, err := isolation.ForTask(task, d.Dir())
	if err != nil {
		return invalid(err)
	}
	if err := checkDevices(config.Devices, bounding); err != nil {
		return invalid(err)
	}
	box := &supervisor.Sandbox{Config: *config, Limits: limits(task.Resources, agent.PidsLimit)}
	box.Chroot, box.WorkDir, box.NoPivotRoot = agent.chroot(), c.WorkDir, agent.NoPivotRoot
	box.Bounding, box.Ambient = bounding, named
	box.First = c.Init != nil && !*c.Init
	if box.HostPID, err = isHost(c.PIDMode, agent.DefaultPIDMode); err != nil {
		return invalid(err)
	}
	if box.HostIPC, err = isHost(c.IPCMode, agent.DefaultIPCMode); err != nil {
		return invalid(err)
	}
	logs, err := supervised.Logs(task)
	if err != nil {
		return invalid(err)
	}
	env, secrets := supervised.Secrets(task, supervised.Environment(task.Env, nil), nil)
	return supervisor.Spec{ID: task.ID, Env: env, Secrets: secrets, User: user, Logs: logs, Sandbox: box}, nil
}

// user returns the user of a task or of a command in one. It names root explicitly
// instead of returning nil, which means the agent's user.
func (c isolatedAgentConfig) user(name string, dynamic int) (*supervisor.User, error) {
	u := &supervisor.User{UID: uint32(dynamic), GID: uint32(dynamic)}
	if dynamic == 0 {
		named, err := supervised.ResolveUser(cmp.Or(name, defaultUser))
		if err != nil {
			return nil, errdefs.New(errdefs.InvalidArgument, err)
		}
		if named != nil { // otherwise it is the agent's user, which is root because isolation requires it
			u = named
		}
	}
	if err := c.allow(u); err != nil {
		return nil, errdefs.New(errdefs.PermissionDenied, err)
	}
	return u, nil
}

// isKernels reports whether a line of chroot_env names one of the kernel's own file systems. Every
// task has one of its own there, so the line is right and needs no mount. Drivers built for Nomad
// need it in client.chroot_env.
func isKernels(from, to string) bool {
	return filepath.Clean(from) == filepath.Clean(to) && slices.Contains([]string{"/dev", "/proc", "/sys"}, filepath.Clean(to))
}

// checkShown refuses a line of chroot_env that no task would see, because the task's own
// directories hide it.
func checkShown(from, to string) error {
	if !filepath.IsAbs(from) || !filepath.IsAbs(to) || filepath.Clean(to) == "/" {
		return errors.New("both must be absolute, and the second not /")
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(filepath.Clean(to), "/"), "/")
	switch first {
	case "alloc", "dev", "local", "private", "proc", "secrets", "sys", "tmp":
		if !isKernels(from, to) {
			return fmt.Errorf("every task has a /%s of its own, which would hide it; choose another path as the second, or remove the line", first)
		}
	}
	return nil
}

func (c isolatedAgentConfig) chroot() []isolation.Bind {
	var out []isolation.Bind
	for from, to := range c.ChrootEnv {
		if isKernels(from, to) {
			continue
		}
		out = append(out, isolation.Bind{Source: filepath.Clean(from), Target: filepath.Clean(to)})
	}
	if len(c.ChrootEnv) == 0 {
		out = isolation.System()
	}
	// Sorted by path, because a path may be mounted inside another one.
	sortBinds(out)
	return out
}

func limits(r driver.Resources, pids int64) cgroup.Limits {
	out := cgroup.Limits{Pids: pids, MemoryMax: r.MemoryMB << 20, CPUShares: r.CPUMHz, Cores: r.Cores, Shared: r.SharedCores}
	if r.MemoryMaxMB > r.MemoryMB {
		out.MemoryMax, out.MemoryLow = r.MemoryMaxMB<<20, r.MemoryMB<<20
	}
	return out
}

// refusedModes returns the host namespaces that the operator does not allow, since they
// expose the machine's processes and their memory. The node's default mode is always
// allowed.
func (c isolatedAgentConfig) refusedModes(task boxConfig) []finding {
	var found []finding
	for _, m := range []struct {
		name, asked, byDefault string
		allowed                []string
	}{
		{"pid", task.PIDMode, c.DefaultPIDMode, c.AllowedModes.PID},
		{"ipc", task.IPCMode, c.DefaultIPCMode, c.AllowedModes.IPC},
	} {
		if m.asked == modeHost && m.byDefault != modeHost && !slices.Contains(m.allowed, modeHost) {
			path := "config." + m.name + "_mode"
			found = append(found, finding{path, errdefs.PermissionDeniedf("%s: %q is not allowed on this node; the operator can allow it with allowed_modes { %s = [\"host\"] } in the agent's plugin config", path, m.asked, m.name)})
		}
	}
	return found
}

// isHost parses a namespace mode.
func isHost(mode, fallback string) (bool, error) {
	if mode == "" {
		mode = fallback
	}
	switch mode {
	case "", modePrivate:
		return false, nil
	case modeHost:
		return true, nil
	}
	return false, fmt.Errorf("%q is neither private nor host", mode)
}

func sortBinds(binds []isolation.Bind) {
	slices.SortFunc(binds, func(a, b isolation.Bind) int { return strings.Compare(a.Target, b.Target) })
}

// unavailable says why this machine cannot isolate tasks. It returns "" if it can.
func unavailable() string { return cmp.Or(isolation.Unavailable(), cgroup.Unavailable()) }

// checkDevices refuses all devices of the machine to a task that could not use them to mount:
// a CSI driver is told what it lacks, and nobody else needs them.
func checkDevices(devices []isolation.Device, capabilities []int) error {
	const sysAdmin = 21
	for _, d := range devices {
		if d.Source == "/dev" && !slices.Contains(capabilities, sysAdmin) {
			return fmt.Errorf("a CSI driver needs the devices of the machine and must be allowed to mount: set cap_add = [\"sys_admin\"] and user = \"root\", and have the operator allow it by allow_caps in the agent's plugin config")
		}
	}
	return nil
}
