// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package docker_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// operator is an agent config that allows nearly everything.
const operator = `
    allow_privileged = true
    allow_caps       = ["chown", "kill", "net_admin", "setuid"]
    pids_limit       = 500
    extra_labels     = ["job_name", "task_*"]
    volumes { enabled = true }
`

// dockerCase is a config block, and the expected output of docker inspect.
type dockerCase struct {
	name   string
	group  string // additional text in the group
	task   string // additional text in the task
	config string
	format string
	want   string
}

func (c dockerCase) hcl() string {
	config := c.config
	if !strings.Contains(config, "command") && !strings.Contains(config, "args") {
		config += "\ncommand = \"sleep\"\nargs = [\"100000\"]"
	}
	if !strings.Contains(config, "image") {
		config += "\nimage = \"busybox:drover\""
	}
	return fmt.Sprintf(`job %q {
  meta { team = "red" }
  group "g" {
`+harness.OnlyOnce+`    %s
    task "t" {
      driver       = "docker"
      kill_timeout = "1s"
      %s
      config {
        %s
      }
    }
  }
}`, c.name, c.group, c.task, config)
}

var dockerCases = []dockerCase{
	{name: "process", config: `
		command     = "/bin/sleep"
		args        = ["${WAIT}", "${NOMAD_META_team}", "a b"]
		entrypoint  = ["/bin/sh", "-c", "exec sleep 1000", "--"]
		work_dir    = "/tmp"
		hostname    = "web-${NOMAD_ALLOC_INDEX}"
		init        = true
		interactive = "true"
		tty         = true`, task: `env { WAIT = "100" }`,
		format: "{{.Config.Entrypoint}}|{{.Config.Cmd}}|{{len .Config.Cmd}}|{{.Config.WorkingDir}}|{{.Config.Hostname}}|{{.HostConfig.Init}}|{{.Config.OpenStdin}}|{{.Config.Tty}}",
		want:   "[/bin/sh -c exec sleep 1000 --]|[/bin/sleep 100 red a b]|4|/tmp|web-0|true|true|true"},
	{name: "labels-map", config: `labels = {
			"com.example/team" = "${NOMAD_META_team}"
			node               = "${node.unique.name}"
			rack               = "${meta.rack}"
			count              = 3
			on                 = true
		}`,
		format: `{{with .Config.Labels}}{{index . "com.example/team"}}|{{eq .node ""}}|{{.rack}}|{{.count}}|{{.on}}|{{index . "com.hashicorp.nomad.job_name"}}|{{index . "com.hashicorp.nomad.task_name"}}|{{index . "com.hashicorp.nomad.task_group_name"}}|{{index . "com.hashicorp.nomad.namespace"}}{{end}}`,
		want:   "red|false|r7|3|true|labels-map|t|g|"},
	{name: "labels-block", config: `labels {
			team = "blue"
		}`, format: "{{.Config.Labels.team}}", want: "blue"},
	{name: "labels-list", config: `labels = [{ a = "1" }, { b = "2" }]`, format: "{{.Config.Labels.a}}{{.Config.Labels.b}}", want: "12"},
	{name: "logging-type", config: `logging {
			type = "json-file"
			config {
				max-size = "5m"
				max-file = "3"
			}
		}`, format: `{{.HostConfig.LogConfig.Type}}|{{index .HostConfig.LogConfig.Config "max-size"}}|{{index .HostConfig.LogConfig.Config "max-file"}}`, want: "json-file|5m|3"},
	{name: "logging-driver", config: `logging {
			driver = "local"
			config = { "max-size" = "6m" }
		}`, format: `{{.HostConfig.LogConfig.Type}}|{{index .HostConfig.LogConfig.Config "max-size"}}|{{len .HostConfig.LogConfig.Config}}`, want: "local|6m|1"},
	{name: "logging-object", config: `logging = {
			type   = "json-file"
			config = [{ "tag" = "${NOMAD_JOB_NAME}" }]
		}`, format: `{{.HostConfig.LogConfig.Config}}`, want: "map[tag:logging-object]"},
	{name: "logging-default", config: ``, format: `{{.HostConfig.LogConfig.Type}} {{.HostConfig.LogConfig.Config}}`, want: "json-file map[max-file:2 max-size:2m]"},
	{name: "mount-blocks", config: `
		mount {
			type     = "bind"
			source   = "local/conf"
			target   = "/conf"
			readonly = true
			bind_options { propagation = "rprivate" }
		}
		mount {
			type   = "tmpfs"
			target = "/scratch"
			tmpfs_options {
				size = 1048576
				mode = 511
			}
		}
		mount {
			target = "/vol"
			source = "vol-${NOMAD_ALLOC_INDEX}"
			volume_options {
				no_copy = true
				labels { kept = "yes" }
			}
		}`, task: `template {
			data        = "x"
			destination = "local/conf/file"
		}`,
		format: `{{range .HostConfig.Mounts}}{{.Type}} {{.Target}} {{.ReadOnly}}{{with .BindOptions}} {{.Propagation}}{{end}}{{with .TmpfsOptions}} {{.SizeBytes}} {{printf "%o" .Mode}}{{end}}{{with .VolumeOptions}} {{.NoCopy}} {{.Labels}}{{end}};{{end}}`,
		want:   "bind /conf true rprivate;tmpfs /scratch false 1048576 777;volume /vol false true map[kept:yes];"},
	{name: "mounts-list", config: `mounts = [
			{
				type     = "volume"
				target   = "/vol"
				source   = "other"
				readonly = false
				volume_options = {
					no_copy = false
					labels = {
						foo = "bar"
					}
					driver_config = {
						name = "local"
						options = {
							type   = "tmpfs"
							device = "tmpfs"
						}
					}
				}
			},
			{
				type         = "bind"
				target       = "/host"
				source       = "/var"
				readonly     = true
				bind_options = { propagation = "rprivate" }
			},
			{
				type          = "tmpfs"
				target        = "/t"
				tmpfs_options = { size = 100000 }
			}
		]`,
		format: `{{range .HostConfig.Mounts}}{{.Type}} {{.Source}} {{.Target}} {{.ReadOnly}}{{with .TmpfsOptions}} {{.SizeBytes}}{{end}}{{with .VolumeOptions}} {{.Labels}} {{.DriverConfig.Name}} {{.DriverConfig.Options}}{{end}};{{end}}`,
		want:   "volume other /vol false map[foo:bar] local map[device:tmpfs type:tmpfs];bind /var /host true;tmpfs  /t false 100000;"},
	{name: "volumes", config: `volumes = ["local/data:/data", "/var:/host:ro", "../alloc/data:/shared", "${meta.path}:/meta"]`,
		format: `{{range .HostConfig.Mounts}}{{.Type}} {{.Target}};{{end}}{{range .HostConfig.Binds}}{{.}};{{end}}`,
		want:   "bind /alloc;bind /local;bind /secrets;bind /data;bind /shared;/var:/host:ro;/tmp:/meta;"},
	{name: "volume-driver", config: `
		volume_driver = "local"
		volumes       = ["named-${NOMAD_ALLOC_INDEX}:/n"]`,
		format: `{{range .Mounts}}{{if eq .Type "volume"}}{{.Name}} {{.Driver}} {{.Destination}}{{end}}{{end}}`, want: "named-0 local /n"},
	{name: "devices-list", config: `devices = [
			{ host_path = "/dev/null", container_path = "/dev/nothing", cgroup_permissions = "r" },
			{ host_path = "/dev/zero" }
		]`, format: `{{range .HostConfig.Devices}}{{.PathOnHost}} {{.PathInContainer}} {{.CgroupPermissions}};{{end}}`,
		want: "/dev/null /dev/nothing r;/dev/zero /dev/zero rwm;"},
	{name: "devices-blocks", config: `
		devices {
			host_path = "/dev/null"
		}
		devices {
			host_path      = "/dev/full"
			container_path = "/dev/x"
		}`, format: `{{range .HostConfig.Devices}}{{.PathOnHost}} {{.PathInContainer}} {{.CgroupPermissions}};{{end}}`,
		want: "/dev/null /dev/null rwm;/dev/full /dev/x rwm;"},
	{name: "ulimit-block", config: `ulimit {
			nproc  = "4242"
			nofile = "2048:4096"
		}`, format: `{{range .HostConfig.Ulimits}}{{.Name}} {{.Soft}} {{.Hard}};{{end}}`, want: "nofile 2048 4096;nproc 4242 4242;"},
	{name: "ulimit-map", config: `ulimit = { nofile = 1000, core = "0:0" }`, format: `{{range .HostConfig.Ulimits}}{{.Name}} {{.Soft}} {{.Hard}};{{end}}`, want: "core 0 0;nofile 1000 1000;"},
	{name: "sysctl", config: `
		sysctl     = { "net.core.somaxconn" = "16384" }
		shm_size   = 33554432
		group_add  = ["1234", "nogroup"]
		pids_limit = "99"`, format: `{{.HostConfig.Sysctls}} {{.HostConfig.ShmSize}} {{.HostConfig.GroupAdd}} {{.HostConfig.PidsLimit}}`, want: "map[net.core.somaxconn:16384] 33554432 [1234 nogroup] 99"},
	{name: "of-the-node", config: `
		shm_size        = "${meta.size}"
		readonly_rootfs = "${meta.yes}"
		sysctl          = { "net.core.somaxconn" = "${attr.cpu.numcores}" }
		mount {
			type     = "${KIND}"
			target   = "/${node.datacenter}"
			readonly = "${meta.yes}"
			tmpfs_options { size = "${meta.size}" }
		}
		ulimit { nofile = "${LOW}:${HIGH}" }`, task: `env {
			KIND = "tmpfs"
			LOW  = "100"
			HIGH = "200"
		}`, format: `{{.HostConfig.ShmSize}} {{.HostConfig.ReadonlyRootfs}} {{range .HostConfig.Mounts}}{{if eq .Type "tmpfs"}}{{.Type}} {{.Target}} {{.ReadOnly}} {{.TmpfsOptions.SizeBytes}}{{end}}{{end}}{{range .HostConfig.Ulimits}} {{.Soft}} {{.Hard}}{{end}}`,
		want: "33554432 true tmpfs /dc1 true 33554432 100 200"},
	{name: "names", config: `
		dns_servers        = ["192.0.2.53"]
		dns_search_domains = ["internal.example.com"]
		dns_options        = ["ndots:1"]
		extra_hosts        = ["db:192.0.2.7", "six:2001:db8::1", "me:${attr.unique.network.ip-address}"]`,
		format: `{{.HostConfig.Dns}} {{.HostConfig.DnsSearch}} {{.HostConfig.DnsOptions}} {{.HostConfig.ExtraHosts}}`, want: "[192.0.2.53] [internal.example.com] [ndots:1] [db:192.0.2.7 six:2001:db8::1 me:127.0.0.1]"},
	{name: "cpu", config: `
		cpu_hard_limit    = true
		cpu_cfs_period    = 50000
		cpuset_cpus       = "0"
		memory_hard_limit = 64
		oom_score_adj     = 500`, task: `resources {
			cpu    = 2000
			memory = 32
		}`, format: `{{.HostConfig.CpuPeriod}} {{.HostConfig.CpuQuota}} {{.HostConfig.CpuShares}} {{.HostConfig.CpusetCpus}} {{.HostConfig.Memory}} {{.HostConfig.MemoryReservation}} {{.HostConfig.OomScoreAdj}}`,
		want: "50000 10000 2000 0 67108864 33554432 500"},
	{name: "memory", task: `resources {
			cpu    = 100
			memory = 32
		}`, format: `{{.HostConfig.Memory}} {{.HostConfig.MemorySwap}} {{.HostConfig.PidsLimit}}`, want: "33554432 33554432 500"},
	{name: "caps", config: `
		cap_add  = ["NET_ADMIN"]
		cap_drop = ["chown"]
		security_opt = ["no-new-privileges"]
		cgroupns = "private"
		readonly_rootfs = true`, format: `{{.HostConfig.CapAdd}} {{.HostConfig.CapDrop}} {{.HostConfig.SecurityOpt}} {{.HostConfig.CgroupnsMode}} {{.HostConfig.ReadonlyRootfs}}`,
		want: "[CAP_KILL CAP_NET_ADMIN CAP_SETUID] [ALL] [no-new-privileges] private true"},
	{name: "host", config: `
		ipc_mode    = "host"
		pid_mode    = "host"
		userns_mode = "host"
		uts_mode    = "host"
		network_mode = "host"
		runtime     = "runc"`, format: `{{.HostConfig.IpcMode}} {{.HostConfig.PidMode}} {{.HostConfig.UsernsMode}} {{.HostConfig.UTSMode}} {{.HostConfig.NetworkMode}} {{.HostConfig.Runtime}}`,
		want: "host host host host host runc"},
	{name: "network", config: `
		network_mode    = "e2e"
		network_aliases = ["web", "web-${NOMAD_ALLOC_INDEX}"]
		ipv4_address    = "10.254.77.9"
		ipv6_address    = "fd00:77::9"
		advertise_ipv6_address = true`, format: `{{.HostConfig.NetworkMode}} {{with index .NetworkSettings.Networks "e2e"}}{{.IPAddress}} {{.GlobalIPv6Address}} {{index .Aliases 0}} {{index .Aliases 1}}{{end}}`,
		want: "e2e 10.254.77.9 fd00:77::9 web web-0"},
	{name: "none", config: `network_mode = "none"`, format: `{{.HostConfig.NetworkMode}}`, want: "none"},
	{name: "ports", group: `network {
			port "http" { to = 8080 }
			port "admin" {}
		}`, config: `
		ports  = ["http", "admin"]
		labels = { port = "${NOMAD_PORT_http}", host = "${NOMAD_HOST_PORT_http}", addr = "${NOMAD_ADDR_http}" }`,
		format: `{{len .HostConfig.PortBindings}} {{with index .HostConfig.PortBindings "8080/tcp"}}{{(index . 0).HostIp}}{{end}} {{.Config.Labels.port}} {{eq .Config.Labels.host (index (index .HostConfig.PortBindings "8080/tcp") 0).HostPort}}`,
		want:   "4 127.0.0.1 8080 true"},
	{name: "port-map-block", group: `network {
			port "http" {}
		}`, config: `port_map {
			http = 80
		}`, format: `{{with index .HostConfig.PortBindings "80/tcp"}}{{(index . 0).HostIp}}{{end}} {{range .Config.Env}}{{if eq . "NOMAD_PORT_http=80"}}{{.}}{{end}}{{end}}`, want: "127.0.0.1 NOMAD_PORT_http=80"},
	{name: "port-map-map", group: `network {
			port "http" {}
		}`, config: `port_map = { http = "81" }`, format: `{{with index .HostConfig.PortBindings "81/udp"}}{{(index . 0).HostIp}}{{end}}`, want: "127.0.0.1"},
	{name: "health", config: `healthchecks { disable = true }`, format: `{{.Config.Healthcheck.Test}}`, want: "[NONE]"},
	{name: "pulls", config: `
		image              = "https://docker.io/library/busybox:drover"
		image_pull_timeout = "1m"
		auth_soft_fail     = true
		container_exists_attempts = 2
		auth {
			username       = "u"
			password       = "${PW}"
			email          = "a@example.com"
			server_address = "registry.example.com"
		}`, task: `env { PW = "secret" }
		user         = "nobody"
		kill_signal  = "SIGINT"`, format: `{{.Config.User}} {{.Config.StopSignal}} {{.Config.Image}}`, want: "nobody SIGINT docker.io/library/busybox:drover"},
}

var ownFolders = regexp.MustCompile(`bind (\S+ )?/(alloc|local|secrets) false;`)

func TestEveryFormOfADockerConfigIsWhatDockerIsAskedFor(t *testing.T) {
	a, d := dockerAgentWith(t, operator)
	if _, err := d.CLI("network", "create", "--subnet", "10.254.77.0/24", "--ipv6", "--subnet", "fd00:77::/64", "e2e"); err != nil {
		t.Fatal(err)
	}
	for _, c := range dockerCases {
		file := a.Write(c.name+".nomad.hcl", 0o644, c.hcl())
		if out, code := a.CLI("job", "run", "-detach", file); code != 0 {
			t.Errorf("%s: %s", c.name, out)
		} else if strings.Contains(strings.ToLower(out), "warn") {
			t.Logf("%s: %s", c.name, out)
		}
	}
	for _, c := range dockerCases {
		var alloc *model.AllocListStub
		ended := false
		a.Eventually(time.Minute, c.name+" starts", func() bool {
			for _, x := range a.Allocs(c.name, "") {
				alloc, ended = x, x.ClientStatus == model.AllocClientStatusFailed
			}
			return alloc != nil && (ended || alloc.ClientStatus == model.AllocClientStatusRunning)
		})
		if ended {
			t.Errorf("%s: %s", c.name, a.Must("alloc", "status", alloc.ID))
			continue
		}
		out, err := d.CLI("inspect", "-f", c.format, "t-"+alloc.ID)
		if c.name != "volumes" { // only that case checks the mounts that every task has
			out = ownFolders.ReplaceAllString(out, "")
		}
		if err != nil || out != c.want {
			t.Errorf("%s: %q, %v\nwant %q", c.name, out, err, c.want)
		}
		a.Must("job", "stop", "-detach", "-purge", c.name)
	}
}
