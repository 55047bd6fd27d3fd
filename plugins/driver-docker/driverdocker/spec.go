// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// specInput contains everything from which a container is created.
type specInput struct {
	task   *driver.TaskConfig
	config taskConfig
	agent  agentConfig
	owner  string // owner label of the node's containers
	image  string // image id
	api    string // API version of the daemon
	host   facts  // facts of the daemon
	source source // resolves paths in the alloc's directory
}

// buildSpec returns the create request for the daemon. It depends only on its input,
// and creates directories in the alloc's directory for volumes.
func buildSpec(in specInput) (client.ContainerCreateOptions, error) {
	var none client.ContainerCreateOptions
	if in.config.Isolation != "" && in.config.Isolation != "default" && in.host.os != "windows" {
		return none, invalidf("isolation", "%q means something on Windows only; remove it", in.config.Isolation)
	}
	labels, err := labelsOf(in)
	if err != nil {
		return none, err
	}
	config := &container.Config{
		Hostname: in.config.Hostname, User: in.task.User, Tty: in.config.TTY, OpenStdin: in.config.Interactive,
		Env: environment(in.task.Env), Cmd: command(in.config), Entrypoint: in.config.Entrypoint, Image: in.image,
		WorkingDir: in.config.WorkDir, Labels: labels, StopSignal: in.task.KillSignal,
	}
	if in.config.Healthchecks.Disable {
		config.Healthcheck = &container.HealthConfig{Test: []string{"NONE"}}
	}
	host := &container.HostConfig{
		GroupAdd: in.config.GroupAdd, SecurityOpt: in.config.SecurityOpt, StorageOpt: in.config.StorageOpt,
		ReadonlyRootfs: in.config.ReadonlyRootfs, ShmSize: in.config.ShmSize, Sysctls: nonEmpty(merged(in.config.Sysctl)),
		VolumeDriver: in.config.VolumeDriver, LogConfig: logConfig(in),
	}
	if in.config.Init {
		host.Init = &in.config.Init
	}
	for _, step := range slices.Concat(rights, limits, []func(specInput, *container.HostConfig) error{namespaces, mounts, devices, gpus}) {
		if err := step(in, host); err != nil {
			return none, err
		}
	}
	networking, err := network(in, config, host)
	if err != nil {
		return none, err
	}
	return client.ContainerCreateOptions{Config: config, HostConfig: host, NetworkingConfig: networking, Name: containerName(in.task)}, nil
}

// containerName returns the container's name, which is the same as with the
// reference because users search for it.
func containerName(task *driver.TaskConfig) string {
	return notInName.ReplaceAllString(task.Name, "_") + "-" + task.AllocID
}

var notInName = regexp.MustCompile(`[^a-zA-Z0-9_.-]`)

// command returns the container's command: config.command replaces the image's, and
// args without command are arguments of its entrypoint.
func command(c taskConfig) []string {
	if c.Command == "" {
		return c.Args
	}
	return append([]string{c.Command}, c.Args...)
}

func environment(env map[string]string) []string {
	out := make([]string, 0, len(env))
	for name, value := range env {
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return out
}

func nonEmpty[V any](m map[string]V) map[string]V {
	if len(m) == 0 {
		return nil
	}
	return m
}

// logConfig returns the log driver and its options. If a task sets another driver,
// it does not inherit the agent's options.
func logConfig(in specInput) container.LogConfig {
	out := container.LogConfig{Type: in.agent.Logging.Type, Config: in.agent.Logging.Config}
	own := in.config.Logging
	if own == nil {
		return out
	}
	kind := own.Driver
	if kind == "" {
		kind = own.Type
	}
	if kind != "" && kind != out.Type {
		out = container.LogConfig{Type: kind}
	}
	if len(own.Config) > 0 {
		out.Config = merged(own.Config)
	}
	return out
}

func devices(in specInput, host *container.HostConfig) error {
	for _, d := range in.task.Devices {
		host.Devices = append(host.Devices, device(d.HostPath, d.TaskPath, d.Permissions))
	}
	for _, d := range in.config.Devices {
		if d.HostPath == "" {
			return invalidf("devices", "one has no host_path; name the device on the machine")
		}
		if strings.Trim(d.CgroupPermissions, "rwm") != "" {
			return invalidf("devices", "permissions %q of %s are not of the letters r, w and m", d.CgroupPermissions, d.HostPath)
		}
		if !deviceAllowed(in.agent, d.HostPath) {
			return forbiddenf("devices", "%s is not allowed on this node; the operator can allow it with allow_devices or allow_privileged in the agent's plugin \"docker\" config", d.HostPath)
		}
		host.Devices = append(host.Devices, device(d.HostPath, d.ContainerPath, d.CgroupPermissions))
	}
	return nil
}

// freeDevices are the devices that every container has anyway.
var freeDevices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// deviceAllowed reports whether a task may use a device file, which could be a disk
// and so give access to the whole machine. The daemon also accepts a directory of
// devices; it must be allowed by its own name.
func deviceAllowed(agent agentConfig, name string) bool {
	if agent.AllowPrivileged || slices.Contains(freeDevices, name) {
		return true
	}
	return path.Clean(name) == name && slices.ContainsFunc(agent.AllowDevices, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return ok && err == nil
	})
}

// gpus adds the GPUs that a device plugin has reserved: by their CDI names if the
// daemon supports CDI, otherwise with NVIDIA's runtime, which reads the environment
// variable. If the task sets its own runtime, nothing is changed.
func gpus(in specInput, host *container.HostConfig) error {
	if host.Runtime != "" {
		return nil
	}
	if len(in.task.CDIDevices) > 0 && in.host.cdi {
		host.DeviceRequests = append(host.DeviceRequests, container.DeviceRequest{Driver: "cdi", DeviceIDs: in.task.CDIDevices})
		return nil
	}
	if in.task.DeviceEnv[visibleGPUs] == "" {
		return nil
	}
	name := in.agent.NvidiaRuntime
	if in.host.known && !slices.Contains(in.host.runtimes, name) {
		return errdefs.FailedPreconditionf("the task has GPUs (%s is set), and the Docker daemon has no runtime %q to give them with; install nvidia-container-toolkit on the node and register the runtime, or turn CDI on in the daemon", visibleGPUs, name)
	}
	host.Runtime = name
	return allowRuntime(in.agent, name)
}

// visibleGPUs is the environment variable in which a device plugin lists a task's
// GPUs.
const visibleGPUs = "NVIDIA_VISIBLE_DEVICES"

func device(host, inside, permissions string) container.DeviceMapping {
	if inside == "" {
		inside = host
	}
	if permissions == "" {
		permissions = "rwm"
	}
	return container.DeviceMapping{PathOnHost: host, PathInContainer: inside, CgroupPermissions: permissions}
}

// namespaces sets the namespaces that the container shares with the machine, as far
// as the operator allows it.
func namespaces(in specInput, host *container.HostConfig) error {
	modes := in.agent.AllowedModes
	for _, m := range []struct {
		name, value string
		allowed     []string
		free        bool // a value that shares nothing with the machine
	}{
		{"ipc_mode", in.config.IPCMode, modes.IPC, slices.Contains([]string{"private", "none", "shareable"}, in.config.IPCMode)},
		{"pid_mode", in.config.PIDMode, modes.PID, in.config.PIDMode == "private"},
		{"userns_mode", in.config.UsernsMode, modes.Userns, false},
		{"uts_mode", in.config.UTSMode, modes.UTS, false},
	} {
		if m.value != "" && !m.free && !in.agent.AllowPrivileged && !slices.Contains(m.allowed, m.value) {
			return forbiddenf(m.name, "%q is not allowed on this node; the operator can allow it with allowed_modes or allow_privileged in the agent's plugin \"docker\" config", m.value)
		}
	}
	if in.config.UTSMode == "host" && in.config.Hostname != "" {
		return invalidf("hostname", "a container with uts_mode = \"host\" has the machine's; remove one of the two")
	}
	switch in.config.Cgroupns {
	case "", "private", "host":
		host.CgroupnsMode = container.CgroupnsMode(in.config.Cgroupns)
	default:
		return invalidf("cgroupns", "%q is neither host nor private", in.config.Cgroupns)
	}
	host.IpcMode = container.IpcMode(in.config.IPCMode)
	if in.config.PIDMode != "private" {
		host.PidMode = container.PidMode(in.config.PIDMode)
	}
	host.UsernsMode = container.UsernsMode(in.config.UsernsMode)
	host.UTSMode = container.UTSMode(in.config.UTSMode)
	return nil
}
