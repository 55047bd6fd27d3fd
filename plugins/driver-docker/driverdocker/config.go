// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/isolation"
	"github.com/drover-project/drover/sdk/schema"
)

// agentConfig is the block plugin "docker" { config { } }.
type agentConfig struct {
	Endpoint string `json:"endpoint"`
	TLS      struct {
		Cert string `json:"cert"`
		Key  string `json:"key"`
		CA   string `json:"ca"`
	} `json:"tls"`
	Auth struct {
		Config string `json:"config"`
		Helper string `json:"helper"`
	} `json:"auth"`
	AllowCaps        []string `json:"allow_caps"`
	AllowDevices     []string `json:"allow_devices"`
	AllowPrivileged  bool     `json:"allow_privileged"`
	AllowRuntimes    []string `json:"allow_runtimes"`
	AllowSecurityOpt []string `json:"allow_security_opt"`
	AllowedModes     struct {
		IPC    []string `json:"ipc"`
		PID    []string `json:"pid"`
		Userns []string `json:"userns"`
		UTS    []string `json:"uts"`
	} `json:"allowed_modes"`
	ContainerExistsAttempts int      `json:"container_exists_attempts"`
	DisableLogCollection    bool     `json:"disable_log_collection"`
	ExtraLabels             []string `json:"extra_labels"`
	GC                      struct {
		Image      bool   `json:"image"`
		ImageDelay string `json:"image_delay"`
		Container  bool   `json:"container"`
		Dangling   struct {
			Enabled       bool   `json:"enabled"`
			DryRun        bool   `json:"dry_run"`
			Period        string `json:"period"`
			CreationGrace string `json:"creation_grace"`
		} `json:"dangling_containers"`
	} `json:"gc"`
	InfraImage            string `json:"infra_image"`
	InfraImagePullTimeout string `json:"infra_image_pull_timeout"`
	ImagePullTimeout      string `json:"image_pull_timeout"`
	PullActivityTimeout   string `json:"pull_activity_timeout"`
	Logging               struct {
		Type   string            `json:"type"`
		Config map[string]string `json:"config"`
	} `json:"logging"`
	NvidiaRuntime string `json:"nvidia_runtime"`
	OOMScoreAdj   int    `json:"oom_score_adj"`
	PidsLimit     int64  `json:"pids_limit"`
	Volumes       struct {
		Enabled      bool   `json:"enabled"`
		SELinuxLabel string `json:"selinuxlabel"`
	} `json:"volumes"`
	WindowsAdmin bool `json:"windows_allow_insecure_container_admin"`

	pullTimeout, activityTimeout, imageDelay, period, grace time.Duration
}

// parseAgentConfig decodes the block and checks what a schema cannot express.
func parseAgentConfig(body []byte) (agentConfig, error) {
	var c agentConfig
	if err := schema.Unmarshal(body, &c); err != nil {
		return c, err
	}
	var infraTimeout time.Duration
	for _, d := range []struct {
		name, text string
		into       *time.Duration
	}{
		{"infra_image_pull_timeout", c.InfraImagePullTimeout, &infraTimeout},
		{"image_pull_timeout", c.ImagePullTimeout, &c.pullTimeout},
		{"pull_activity_timeout", c.PullActivityTimeout, &c.activityTimeout},
		{"gc.image_delay", c.GC.ImageDelay, &c.imageDelay},
		{"gc.dangling_containers.period", c.GC.Dangling.Period, &c.period},
		{"gc.dangling_containers.creation_grace", c.GC.Dangling.CreationGrace, &c.grace},
	} {
		v, err := time.ParseDuration(d.text)
		if err != nil || v < 0 {
			return c, errdefs.InvalidArgumentf("%s: %q is not a duration; write it as 90s or 5m", d.name, d.text)
		}
		*d.into = v
	}
	if c.pullTimeout == 0 || infraTimeout == 0 || c.activityTimeout == 0 || c.period < time.Second {
		return c, errdefs.InvalidArgumentf("image_pull_timeout, infra_image_pull_timeout and pull_activity_timeout must be more than zero, and gc.dangling_containers.period at least 1s")
	}
	if _, err := reference.ParseAnyReference(c.InfraImage); err != nil && c.InfraImage != "" {
		return c, errdefs.InvalidArgumentf("infra_image: %q is not an image name: %w", c.InfraImage, err)
	}
	if c.PidsLimit < 0 {
		return c, errdefs.InvalidArgumentf("pids_limit: %d is less than zero; leave it out for no limit", c.PidsLimit)
	}
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		return c, errdefs.InvalidArgumentf("tls: cert and key belong together; give both")
	}
	if err := isolation.CheckCapabilities(c.AllowCaps); err != nil {
		return c, errdefs.InvalidArgumentf("allow_caps: %w", err)
	}
	for _, pattern := range c.AllowDevices {
		if _, err := path.Match(pattern, ""); err != nil || !strings.HasPrefix(pattern, "/") {
			return c, errdefs.InvalidArgumentf("allow_devices: %q is neither the absolute path of a device file nor a pattern with *", pattern)
		}
	}
	return c, checkExtraLabels(c.ExtraLabels)
}

// taskConfig is the config block of a task.
type taskConfig struct {
	Image                   string                 `json:"image"`
	ImagePullTimeout        string                 `json:"image_pull_timeout"`
	ForcePull               bool                   `json:"force_pull"`
	Load                    string                 `json:"load"`
	Auth                    *authBlock             `json:"auth"`
	AuthSoftFail            bool                   `json:"auth_soft_fail"`
	Command                 string                 `json:"command"`
	Args                    []string               `json:"args"`
	Entrypoint              []string               `json:"entrypoint"`
	WorkDir                 string                 `json:"work_dir"`
	Hostname                string                 `json:"hostname"`
	Init                    bool                   `json:"init"`
	Interactive             bool                   `json:"interactive"`
	TTY                     bool                   `json:"tty"`
	Labels                  []map[string]string    `json:"labels"`
	Logging                 *loggingBlock          `json:"logging"`
	Healthchecks            struct{ Disable bool } `json:"healthchecks"`
	ContainerExistsAttempts int                    `json:"container_exists_attempts"`
	Isolation               string                 `json:"isolation"`
	Mount                   []mountBlock           `json:"mount"`
	Mounts                  []mountBlock           `json:"mounts"`
	Volumes                 []string               `json:"volumes"`
	VolumeDriver            string                 `json:"volume_driver"`
	StorageOpt              map[string]string      `json:"storage_opt"`
	ReadonlyRootfs          bool                   `json:"readonly_rootfs"`
	Devices                 []deviceBlock          `json:"devices"`

	NetworkMode          string           `json:"network_mode"`
	NetworkAliases       []string         `json:"network_aliases"`
	IPv4Address          string           `json:"ipv4_address"`
	IPv6Address          string           `json:"ipv6_address"`
	MacAddress           string           `json:"mac_address"`
	AdvertiseIPv6Address bool             `json:"advertise_ipv6_address"`
	Ports                []string         `json:"ports"`
	PortMap              []map[string]int `json:"port_map"`
	DNSServers           []string         `json:"dns_servers"`
	DNSSearchDomains     []string         `json:"dns_search_domains"`
	DNSOptions           []string         `json:"dns_options"`
	ExtraHosts           []string         `json:"extra_hosts"`

	CapAdd          []string            `json:"cap_add"`
	CapDrop         []string            `json:"cap_drop"`
	Privileged      bool                `json:"privileged"`
	SecurityOpt     []string            `json:"security_opt"`
	GroupAdd        []string            `json:"group_add"`
	Cgroupns        string              `json:"cgroupns"`
	IPCMode         string              `json:"ipc_mode"`
	PIDMode         string              `json:"pid_mode"`
	UsernsMode      string              `json:"userns_mode"`
	UTSMode         string              `json:"uts_mode"`
	Runtime         string              `json:"runtime"`
	CpusetCPUs      string              `json:"cpuset_cpus"`
	CPUHardLimit    bool                `json:"cpu_hard_limit"`
	CPUCFSPeriod    int64               `json:"cpu_cfs_period"`
	MemoryHardLimit int64               `json:"memory_hard_limit"`
	ShmSize         int64               `json:"shm_size"`
	PidsLimit       int64               `json:"pids_limit"`
	OOMScoreAdj     *int                `json:"oom_score_adj"`
	Ulimit          []map[string]string `json:"ulimit"`
	Sysctl          []map[string]string `json:"sysctl"`
}

type authBlock struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Email         string `json:"email"`
	ServerAddress string `json:"server_address"`
}

type loggingBlock struct {
	Type   string              `json:"type"`
	Driver string              `json:"driver"`
	Config []map[string]string `json:"config"`
}

type mountBlock struct {
	Type        string `json:"type"`
	Target      string `json:"target"`
	Source      string `json:"source"`
	Readonly    bool   `json:"readonly"`
	BindOptions *struct {
		Propagation string `json:"propagation"`
	} `json:"bind_options"`
	TmpfsOptions *struct {
		Mode int64 `json:"mode"`
		Size int64 `json:"size"`
	} `json:"tmpfs_options"`
	VolumeOptions *struct {
		NoCopy       bool                `json:"no_copy"`
		Labels       []map[string]string `json:"labels"`
		DriverConfig *struct {
			Name    string              `json:"name"`
			Options []map[string]string `json:"options"`
		} `json:"driver_config"`
	} `json:"volume_options"`
}

type deviceBlock struct {
	HostPath          string `json:"host_path"`
	ContainerPath     string `json:"container_path"`
	CgroupPermissions string `json:"cgroup_permissions"`
}

// defaultCFSPeriod is the period of cpu_hard_limit in microseconds.
const defaultCFSPeriod = 100000

// readTaskConfig decodes a task's config block. Job files may give an image as a URL of its
// registry.
func readTaskConfig(body []byte) (taskConfig, error) {
	c := taskConfig{CPUCFSPeriod: defaultCFSPeriod}
	err := schema.Unmarshal(body, &c)
	c.Image = strings.TrimPrefix(c.Image, "https://")
	return c, err
}

// parseTaskConfig decodes a task's config block and checks the name of its image.
func parseTaskConfig(body []byte) (taskConfig, error) {
	c, err := readTaskConfig(body)
	if err != nil {
		return c, err
	}
	return c, c.checkImage()
}

func (c taskConfig) checkImage() error {
	if c.Image == "" {
		return invalidf("image", "is empty; name the image to run")
	}
	if _, err := reference.ParseAnyReference(c.Image); err != nil {
		return invalidf("image", "%q is not an image name: %w", c.Image, err)
	}
	return nil
}

// pullLimit is the time limit for pulling the task's image.
func (c taskConfig) pullLimit(agent agentConfig) (time.Duration, error) {
	if c.ImagePullTimeout == "" {
		return agent.pullTimeout, nil
	}
	d, err := time.ParseDuration(c.ImagePullTimeout)
	if err != nil || d <= 0 {
		return 0, invalidf("image_pull_timeout", "%q is not a duration above zero; write it as 90s or 5m", c.ImagePullTimeout)
	}
	return d, nil
}

// merged merges the blocks of a map that was written as several blocks.
func merged[V any](list []map[string]V) map[string]V {
	out := map[string]V{}
	for _, m := range list {
		maps.Copy(out, m)
	}
	return out
}

// labelFacts are the values that extra_labels may list.
var labelFacts = []string{"job_name", "job_id", "task_group_name", "task_name", "namespace", "node_name", "node_id", "short_alloc_id"}

func checkExtraLabels(list []string) error {
	for _, pattern := range list {
		if !slices.ContainsFunc(labelFacts, func(name string) bool { return glob(pattern, name) }) {
			return errdefs.InvalidArgumentf("extra_labels: %q matches no label; the labels are %v, and patterns with *", pattern, labelFacts)
		}
	}
	return nil
}

// attributeError is an error in an attribute of a config.
type attributeError struct {
	path string
	err  error
	// unsure is set if only a start knows whether it is wrong.
	unsure bool
}

func (e *attributeError) Error() string { return e.path + ": " + e.err.Error() }

func (e *attributeError) Unwrap() error { return e.err }

// invalidf returns the error for an attribute that cannot be right.
func invalidf(name, format string, args ...any) error {
	return errdefs.New(errdefs.InvalidArgument, &attributeError{path: "config." + name, err: fmt.Errorf(format, args...)})
}

// forbiddenf returns the error for an attribute that the operator does not allow.
func forbiddenf(name, format string, args ...any) error {
	return errdefs.New(errdefs.PermissionDenied, &attributeError{path: "config." + name, err: fmt.Errorf(format, args...)})
}
