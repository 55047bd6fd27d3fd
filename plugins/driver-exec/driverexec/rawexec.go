// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverexec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/drover-project/drover/plugins/internal/supervised"
	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/schema"
)

// RawExec is the task driver raw_exec. It runs processes with the machine's file
// system and network, as the agent's user unless the task sets a user.
type RawExec struct {
	shared
	agent supervised.Config[agentConfig]
}

// NewRawExec returns the driver. dir is the directory of its supervisor.
func NewRawExec(dir string) *RawExec {
	d := &RawExec{}
	d.shared = newShared(dir, func(name string) (*supervisor.User, error) {
		agent, _ := d.agent.Get()
		return agent.user(name)
	})
	return d
}

// user resolves the user of a task or of a command in one.
func (c agentConfig) user(name string) (*supervisor.User, error) {
	u, err := supervised.ResolveUser(name)
	if err != nil {
		return nil, errdefs.New(errdefs.InvalidArgument, err)
	}
	if err := c.allow(u); err != nil {
		return nil, errdefs.New(errdefs.PermissionDenied, err)
	}
	return u, nil
}

// agentConfig is the block plugin "raw_exec" { config { } }.
type agentConfig struct {
	Enabled       bool     `json:"enabled"`
	DeniedEnvvars []string `json:"denied_envvars"`
	deniedUsers
}

// taskConfig is the config block of a task.
type taskConfig struct {
	Command          string              `json:"command"`
	Args             []string            `json:"args"`
	WorkDir          string              `json:"work_dir"`
	OOMScoreAdj      *int                `json:"oom_score_adj"`
	CgroupV1Override []map[string]string `json:"cgroup_v1_override"`
	CgroupV2Override string              `json:"cgroup_v2_override"`
	DeniedEnvvars    []string            `json:"denied_envvars"`
}

// maxOOMScore is the kernel's maximum: the OOM killer selects such a task first.
const maxOOMScore = 1000

// rawExecIgnores lists the parts of a task that the driver ignores: it enforces no
// memory limit, and a task uses the machine's DNS resolver.
func rawExecIgnores(goos string) []string {
	ignores := []string{driver.IgnoresMemoryMax, driver.IgnoresDNS, driver.IgnoresSELinux}
	if goos != "linux" {
		ignores = append(ignores, driver.IgnoresCores)
	}
	return ignores
}

// Info implements driver.Driver.
func (d *RawExec) Info() driver.Info {
	return driver.Info{
		Name: "raw_exec",
		Capabilities: driver.Capabilities{
			SendSignals: runtime.GOOS != "windows", Exec: runtime.GOOS != "windows", ExecOptions: execOptions(), SecretEnv: true, FSIsolation: driver.FSIsolationNone, MountConfigs: mayMount(),
			NetworkModes: []driver.NetworkMode{driver.NetworkHost, driver.NetworkGroup},
			Ignores:      rawExecIgnores(runtime.GOOS),
		},
		ConfigSchema: schema.Schema{Attributes: append([]schema.Attribute{
			{Name: "enabled", Type: schema.Bool, Default: false, Description: "offer the driver; its tasks are not isolated from the machine"},
			{Name: "denied_envvars", Type: schema.ListString, Description: "variables, also as name*, that no task gets"},
		}, deniedUsersSchema()...)},
		TaskConfigSchema: schema.Schema{Attributes: []schema.Attribute{
			{Name: "command", Type: schema.String, Required: true, Description: "program: absolute, in the task's directory, or in its PATH"},
			{Name: "args", Type: schema.ListString, Description: "arguments"},
			{Name: "work_dir", Type: schema.String, Description: "absolute directory to run in; the task's directory if empty"},
			{Name: "oom_score_adj", Type: schema.Number, Range: &schema.Range{Min: 0, Max: maxOOMScore}, Description: "how readily the kernel kills the task when memory runs out, 0 to 1000"},
			{Name: "cgroup_v1_override", Type: schema.ListMapString, Description: "cgroup by controller to run in"},
			{Name: "cgroup_v2_override", Type: schema.String, Description: "cgroup to run in"},
			{Name: "denied_envvars", Type: schema.ListString, Description: "variables, also as name*, that the task does not get"},
		}},
	}
}

// SetConfig implements driver.Driver.
func (d *RawExec) SetConfig(_ context.Context, config []byte) error {
	var c agentConfig
	if err := schema.Unmarshal(config, &c); err != nil {
		return err
	}
	if err := c.deniedUsers.parse(); err != nil {
		return err
	}
	if err := checkPatterns(c.DeniedEnvvars); err != nil {
		return err
	}
	d.agent.Set(c)
	return nil
}

// Fingerprint implements driver.Driver.
func (d *RawExec) Fingerprint(ctx context.Context) (<-chan driver.Fingerprint, error) {
	return d.Fingerprints(ctx, func() (driver.Fingerprint, <-chan struct{}) {
		c, changed := d.agent.Get()
		if !c.Enabled {
			return driver.Fingerprint{Health: driver.HealthUndetected, HealthDescription: "disabled"}, changed
		}
		return driver.Fingerprint{Attributes: map[string]string{"driver.raw_exec": "1"}, Health: driver.HealthHealthy, HealthDescription: "Healthy"}, changed
	}), nil
}

// StartTask implements driver.Driver.
func (d *RawExec) StartTask(ctx context.Context, task *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
	ctx, ended, err := d.Starting(ctx, task.ID)
	if err != nil {
		return nil, nil, err
	}
	defer ended()
	agent, _ := d.agent.Get()
	if !agent.Enabled {
		return nil, nil, errdefs.FailedPreconditionf("start task %q: raw_exec is disabled on this node; set enabled = true in the agent's plugin \"raw_exec\" config", task.ID)
	}
	spec, err := rawSpec(task, agent)
	if err != nil {
		return nil, nil, err
	}
	handle, err := d.Start(ctx, spec)
	return handle, nil, err
}

// checkPatterns rejects invalid patterns in an agent's config.
func checkPatterns(patterns []string) error {
	for _, p := range patterns {
		if err := checkPattern(p); err != nil {
			return errdefs.InvalidArgumentf("denied_envvars: %w", err)
		}
	}
	return nil
}

// checkPattern rejects an invalid pattern, which would never match.
func checkPattern(p string) error {
	if _, err := path.Match(p, ""); err != nil {
		return fmt.Errorf("%q is neither the name of a variable nor a pattern such as SECRET_*: %w", p, err)
	}
	return nil
}

// check returns everything that is wrong with a config, whatever the machine has.
func (c *taskConfig) check() []finding {
	found := checkProgram(c.Command, c.Args)
	invalid := func(path, format string, args ...any) {
		found = append(found, finding{path, errdefs.InvalidArgumentf("%s: %w", path, fmt.Errorf(format, args...))})
	}
	for i, p := range c.DeniedEnvvars {
		if err := checkPattern(p); err != nil {
			invalid(fmt.Sprintf("config.denied_envvars[%d]", i), "%w", err)
		}
	}
	if n := c.OOMScoreAdj; n != nil && (*n < 0 || *n > maxOOMScore) {
		invalid("config.oom_score_adj", "%d is not between 0 and %d", *n, maxOOMScore)
	}
	if c.WorkDir != "" && !filepath.IsAbs(c.WorkDir) {
		invalid("config.work_dir", "%q is not absolute", c.WorkDir)
	}
	return found
}

// workDir checks that the machine has the working directory.
func (c *taskConfig) workDir() error {
	if c.WorkDir == "" {
		return nil
	}
	if st, err := os.Stat(c.WorkDir); err != nil {
		return fmt.Errorf("config.work_dir: there is no such directory: %w", err)
	} else if !st.IsDir() {
		return fmt.Errorf("config.work_dir: %s is not a directory", c.WorkDir)
	}
	return nil
}

// ValidateTask implements driver.Validator.
func (d *RawExec) ValidateTask(_ context.Context, task *driver.TaskDraft) ([]driver.Diagnostic, error) {
	var c taskConfig
	if err := schema.Unmarshal(task.DriverConfig, &c); err != nil {
		return nil, err
	}
	return diagnostics(c.check()), nil
}

// rawSpec converts a task's config to the supervisor's spec.
func rawSpec(task *driver.TaskConfig, agent agentConfig) (supervisor.Spec, error) {
	var c taskConfig
	if err := schema.Unmarshal(task.DriverConfig, &c); err != nil {
		return supervisor.Spec{}, err
	}
	invalid := func(err error) (supervisor.Spec, error) {
		return supervisor.Spec{}, errdefs.InvalidArgumentf("task %q: %w", task.Name, err)
	}
	if err := refusal(task.Name, c.check()); err != nil {
		return supervisor.Spec{}, err
	}
	if err := errors.Join(supervised.CheckKillSignal(task), c.workDir()); err != nil {
		return invalid(err)
	}
	user, err := agent.user(task.User)
	if err != nil {
		return supervisor.Spec{}, errdefs.New(errdefs.ClassOf(err), fmt.Errorf("task %q: %w", task.Name, err))
	}
	program, err := lookUp(task.TaskDir, c.Command, task.Environment()["PATH"])
	if err != nil {
		return invalid(fmt.Errorf("config.command: %w", err))
	}
	cgroups, err := overrides(c)
	if err != nil {
		return invalid(err)
	}
	logs, err := supervised.Logs(task)
	if err != nil {
		return invalid(err)
	}
	mounts, err := rawMounts(task)
	if err != nil {
		return supervisor.Spec{}, errdefs.New(errdefs.ClassOf(err), fmt.Errorf("task %q: %w", task.Name, err))
	}
	network := ""
	if task.Network != nil {
		network = task.Network.Path
	}
	denied := slices.Concat(agent.DeniedEnvvars, c.DeniedEnvvars)
	env, secrets := supervised.Secrets(task, supervised.Environment(task.Env, denied), denied)
	return supervisor.Spec{
		ID: task.ID, Path: program, Args: append([]string{c.Command}, c.Args...), Dir: cmp.Or(c.WorkDir, task.TaskDir),
		Env: env, Secrets: secrets, User: user, Logs: logs,
		OOMScoreAdj: c.OOMScoreAdj, CgroupDirs: cgroups, Cores: task.Resources.Cores, Shared: task.Resources.SharedCores, NetworkNS: network, Mounts: mounts,
	}, nil
}
