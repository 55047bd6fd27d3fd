// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import "github.com/drover-project/drover/sdk/schema"

// The functions below allow one line per attribute in the schemas.

func attr(name string, t schema.Type, description string) schema.Attribute {
	return schema.Attribute{Name: name, Type: t, Description: description}
}

func preset(name string, t schema.Type, value any, description string) schema.Attribute {
	return schema.Attribute{Name: name, Type: t, Default: value, Description: description}
}

func block(name, description string, attrs ...schema.Attribute) schema.Attribute {
	return schema.Attribute{Name: name, Type: schema.Block, Description: description, Block: &schema.Schema{Attributes: attrs}}
}

func blocks(name, description string, attrs ...schema.Attribute) schema.Attribute {
	a := block(name, description, attrs...)
	a.Type = schema.BlockList
	return a
}

// always makes an omitted block equal to an empty one, so that its defaults apply.
func always(a schema.Attribute) schema.Attribute {
	a.Default = map[string]any{}
	return a
}

// defaultCaps are the capabilities that a task may have by default.
var defaultCaps = []any{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD",
	"NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}

// agentSchema returns the schema of the block plugin "docker" { config { } }.
func agentSchema() schema.Schema {
	return schema.Schema{Attributes: []schema.Attribute{
		attr("endpoint", schema.String, "address of the Docker daemon; DOCKER_HOST or the system's own socket if empty"),
		block("tls", "certificates for a daemon behind TLS",
			attr("cert", schema.String, "file of the client's certificate"),
			attr("key", schema.String, "file of the client's key"),
			attr("ca", schema.String, "file of the authority that signed the daemon's certificate")),
		block("auth", "credentials for registries of tasks that bring none",
			attr("config", schema.String, "a Docker client's config.json"),
			attr("helper", schema.String, "the X of a program docker-credential-X")),
		preset("allow_caps", schema.ListString, defaultCaps, "capabilities that a task may have; \"all\" for any"),
		preset("allow_devices", schema.ListString, []any{}, "device files that tasks may use in devices, or patterns with *"),
		preset("allow_privileged", schema.Bool, false, "allow privileged = true, host namespaces, and any device and security_opt"),
		preset("allow_security_opt", schema.ListString, []any{}, "values of security_opt that weaken the protection but are allowed, such as seccomp=unconfined"),
		preset("allow_runtimes", schema.ListString, []any{"runc", "nvidia"}, "OCI runtimes that a task may name"),
		always(block("allowed_modes", "namespaces that a task may name without allow_privileged",
			preset("ipc", schema.ListString, []any{}, "values of ipc_mode"),
			preset("pid", schema.ListString, []any{}, "values of pid_mode"),
			preset("userns", schema.ListString, []any{}, "values of userns_mode"),
			preset("uts", schema.ListString, []any{}, "values of uts_mode"))),
		preset("container_exists_attempts", schema.Number, 5, "how often a start tries to remove an older container of the same task that has its name"),
		preset("disable_log_collection", schema.Bool, false, "write no log files for any task"),
		attr("extra_labels", schema.ListString, "labels of containers: job_name, job_id, task_group_name, task_name, namespace, node_name, node_id, short_alloc_id; or patterns with *"),
		gcSchema(),
		attr("infra_image", schema.String, "image of the containers that keep the networks of groups in mode bridge; unset means one that the driver has with it"),
		preset("infra_image_pull_timeout", schema.String, "5m", "longest time for fetching it"),
		preset("image_pull_timeout", schema.String, "5m", "longest time for fetching an image; a task may set its own"),
		preset("pull_activity_timeout", schema.String, "2m", "longest time without progress while fetching an image"),
		always(block("logging", "how the daemon keeps output of tasks that do not say",
			preset("type", schema.String, "json-file", "log driver of the daemon"),
			preset("config", schema.MapString, map[string]any{"max-file": "2", "max-size": "2m"}, "its options"))),
		preset("nvidia_runtime", schema.String, "nvidia", "runtime of tasks with NVIDIA GPUs"),
		preset("oom_score_adj", schema.Number, 0, "OOM score adjustment of tasks"),
		attr("pids_limit", schema.Number, "most processes that a task may have; 0 for no limit"),
		always(block("volumes", "mounts from outside of the alloc's directory",
			preset("enabled", schema.Bool, false, "allow paths of the machine and volume drivers"),
			attr("selinuxlabel", schema.String, "SELinux label of all mounts, such as z"))),
		preset("windows_allow_insecure_container_admin", schema.Bool, false, "accepted; has an effect on Windows only"),
	}}
}

func gcSchema() schema.Attribute {
	return always(block("gc", "removal of what tasks leave behind",
		preset("image", schema.Bool, true, "remove images that the driver fetched and no task uses"),
		preset("image_delay", schema.String, "3m", "how long an image may be unused"),
		preset("container", schema.Bool, true, "remove containers of ended tasks"),
		always(block("dangling_containers", "removal of this node's containers that belong to no task",
			preset("enabled", schema.Bool, true, "look for them"),
			preset("dry_run", schema.Bool, false, "only log what would be removed"),
			preset("period", schema.String, "5m", "how often"),
			preset("creation_grace", schema.String, "5m", "how old a container must be, and for how long it must have belonged to no task")))))
}

// taskSchema returns the schema of a task's config block.
func taskSchema() schema.Schema {
	mount := []schema.Attribute{
		preset("type", schema.String, "volume", "bind, volume or tmpfs"),
		attr("target", schema.String, "path in the container"),
		attr("source", schema.String, "path or name of a volume; relative to the task's directory"),
		preset("readonly", schema.Bool, false, "no writes"),
		block("bind_options", "for type bind", attr("propagation", schema.String, "rprivate, private, rshared, shared, rslave or slave")),
		block("tmpfs_options", "for type tmpfs",
			attr("mode", schema.Number, "permissions of the directory"), attr("size", schema.Number, "in bytes")),
		block("volume_options", "for type volume",
			preset("no_copy", schema.Bool, false, "start empty, without the image's files at the target"),
			attr("labels", schema.ListMapString, "of a new volume"),
			block("driver_config", "driver of a new volume; needs volumes.enabled",
				attr("name", schema.String, "of the driver"), attr("options", schema.ListMapString, "for the driver"))),
	}
	attrs := []schema.Attribute{
		{Name: "image", Type: schema.String, Required: true, Description: "image to run"},
		attr("image_pull_timeout", schema.String, "longest time for fetching the image"),
		preset("force_pull", schema.Bool, false, "pull the image even if it exists"),
		attr("load", schema.String, "archive in the task's directory to load the image from"),
		block("auth", "credentials for the image's registry",
			attr("username", schema.String, ""), attr("password", schema.String, ""),
			attr("email", schema.String, "accepted but not used"), attr("server_address", schema.String, "of the registry")),
		preset("auth_soft_fail", schema.Bool, false, "continue without credentials if they cannot be found"),
		attr("command", schema.String, "in place of the image's command"),
		attr("args", schema.ListString, "arguments of the command, or of the image's entrypoint"),
		attr("entrypoint", schema.ListString, "in place of the image's entrypoint"),
		attr("work_dir", schema.String, "directory to run in"),
		attr("hostname", schema.String, "of the container"),
		preset("init", schema.Bool, false, "run a small init as process 1"),
		preset("interactive", schema.Bool, false, "keep the input open"),
		preset("tty", schema.Bool, false, "give it a terminal"),
		attr("labels", schema.ListMapString, "of the container"),
		block("logging", "how the daemon keeps the output",
			attr("type", schema.String, "log driver of the daemon"), attr("driver", schema.String, "the same"),
			attr("config", schema.ListMapString, "its options")),
		block("healthchecks", "health checks of the image", preset("disable", schema.Bool, false, "do not run them")),
		attr("container_exists_attempts", schema.Number, "as in the agent's config"),
		attr("isolation", schema.String, "for Windows only"),
		blocks("mount", "what to mount", mount...),
		blocks("mounts", "the same as mount", mount...),
		attr("volumes", schema.ListString, "SOURCE:TARGET[:OPTIONS]; relative sources are in the task's directory"),
		attr("volume_driver", schema.String, "driver of the named volumes of volumes; needs volumes.enabled"),
		attr("storage_opt", schema.MapString, "options of the storage driver"),
		preset("readonly_rootfs", schema.Bool, false, "no writes to the image's files"),
		blocks("devices", "devices of the machine",
			attr("host_path", schema.String, "on the machine"), attr("container_path", schema.String, "in the container; the same if empty"),
			attr("cgroup_permissions", schema.String, "of r, w and m; all if empty")),
	}
	return schema.Schema{Attributes: append(append(attrs, networkAttrs()...), limitAttrs()...)}
}

func networkAttrs() []schema.Attribute {
	return []schema.Attribute{
		attr("network_mode", schema.String, "bridge, host, none, container:NAME or a network of the daemon"),
		attr("network_aliases", schema.ListString, "names in a network of the daemon"),
		attr("ipv4_address", schema.String, "address in a network of the daemon"),
		attr("ipv6_address", schema.String, "address in a network of the daemon"),
		attr("mac_address", schema.String, "of the container's interface"),
		preset("advertise_ipv6_address", schema.Bool, false, "services use the container's IPv6 address"),
		attr("ports", schema.ListString, "labels of the group's ports to publish"),
		attr("port_map", schema.ListMapNumber, "port in the container by label; use ports and the port's to instead"),
		attr("dns_servers", schema.ListString, "in place of the machine's"),
		attr("dns_search_domains", schema.ListString, "in place of the machine's"),
		attr("dns_options", schema.ListString, "in place of the machine's"),
		attr("extra_hosts", schema.ListString, "NAME:ADDRESS for /etc/hosts"),
	}
}

func limitAttrs() []schema.Attribute {
	return []schema.Attribute{
		attr("cap_add", schema.ListString, "capabilities beside the default ones; each must be in the agent's allow_caps"),
		attr("cap_drop", schema.ListString, "capabilities to drop; \"all\" for all"),
		preset("privileged", schema.Bool, false, "all rights of the machine; needs allow_privileged"),
		attr("security_opt", schema.ListString, "security options of the daemon, such as no-new-privileges; options that weaken the protection need allow_security_opt"),
		attr("group_add", schema.ListString, "more groups for the task's user"),
		attr("cgroupns", schema.String, "host or private"),
		attr("ipc_mode", schema.String, "IPC namespace; needs allow_privileged or allowed_modes"),
		attr("pid_mode", schema.String, "process namespace; needs allow_privileged or allowed_modes"),
		attr("userns_mode", schema.String, "user namespace; needs allow_privileged or allowed_modes"),
		attr("uts_mode", schema.String, "hostname namespace; needs allow_privileged or allowed_modes"),
		attr("runtime", schema.String, "OCI runtime; must be in the agent's allow_runtimes"),
		attr("cpuset_cpus", schema.String, "cores to run on, such as 0-2,5; not with resources.cores"),
		preset("cpu_hard_limit", schema.Bool, false, "never more than resources.cpu"),
		preset("cpu_cfs_period", schema.Number, defaultCFSPeriod, "period of cpu_hard_limit in microseconds"),
		attr("memory_hard_limit", schema.Number, "most memory in MiB; resources.memory is then what is reserved"),
		attr("shm_size", schema.Number, "of /dev/shm in bytes"),
		attr("pids_limit", schema.Number, "most processes; not more than the agent's"),
		attr("oom_score_adj", schema.Number, "how readily the kernel kills the task when memory runs out"),
		attr("ulimit", schema.ListMapString, "limits by name, such as nofile = \"1024:2048\""),
		attr("sysctl", schema.ListMapString, "kernel parameters of the container"),
	}
}
