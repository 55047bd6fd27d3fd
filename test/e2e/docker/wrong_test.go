// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package docker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// Mistakes that a schema can detect are reported before a job runs, with their
// position.
func TestAWrongDockerConfigIsRefusedWithItsPlace(t *testing.T) {
	a, _ := dockerAgentWith(t, "")
	for _, c := range []struct{ name, config, says string }{
		{"unknown", "comand = \"x\"", `comand`},
		{"type", "privileged = \"maybe\"", "privileged"},
		{"list", "args = \"a b\"", "args"},
		{"number", "shm_size = \"64M\"", "shm_size"},
		{"block", "mount {\n type = \"bind\"\n sorce = \"x\"\n target = \"/x\"\n }", "sorce"},
		{"deep", "mount {\n target = \"/x\"\n volume_options {\n driver_config {\n nam = \"x\"\n }\n }\n }", "nam"},
		{"mounts", "mounts = [{ type = \"bind\", sauce = \"x\" }]", "sauce"},
		{"ports", "ports = \"http\"", "ports"},
		{"port-map", "port_map {\n http = \"eighty\"\n }", "port_map"},
		{"labels", "labels = [\"a=b\"]", "labels"},
		{"logging", "logging {\n kind = \"json-file\"\n }", "kind"},
		{"auth", "auth {\n user = \"x\"\n }", "user"},
		{"two", "auth {\n username = \"x\"\n }\n auth {\n username = \"y\"\n }", "auth"},
		{"health", "healthchecks {\n disabled = true\n }", "disabled"},
		{"devices", "devices = [\"/dev/null\"]", "devices"},
		{"ulimit", "ulimit = \"nofile=1024\"", "ulimit"},
	} {
		file := a.Write(c.name+".nomad.hcl", 0o644, dockerCase{name: c.name, config: c.config}.hcl())
		for _, verb := range []string{"validate", "plan", "run"} {
			out, code := a.CLI("job", verb, file)
			if code == 0 || !strings.Contains(out, c.name+".nomad.hcl:") || !strings.Contains(out, c.says) {
				t.Errorf("%s: job %s: exit code %d\n%s", c.name, verb, code, out)
			}
		}
	}
	body := strings.Replace(dockerCase{name: "no-image"}.hcl(), "image = \"busybox:drover\"", "", 1)
	if out, code := a.CLI("job", "validate", a.Write("no-image.nomad.hcl", 0o644, body)); code == 0 || !strings.Contains(out, "image") {
		t.Errorf("no-image: exit code %d\n%s", code, out)
	}
}

// Mistakes that only the driver can detect are reported before the job runs, with their
// position; those that only a start or the daemon can detect, as events of the task.
func TestADockerTaskThatCannotStartSaysWhatToDo(t *testing.T) {
	a, _ := dockerAgentWith(t, "pids_limit = 100")
	cases := []struct {
		name, config string
		says         []string
		starts       bool // the start is the first to notice it
	}{
		{"port", `ports = ["http"]`, []string{"config.ports", "http"}, true},
		{"port-map", `port_map { http = 80 }`, []string{"config.port_map", "http"}, true},
		{"volume", `volumes = ["/etc:/host"]`, []string{"config.volumes", "/etc", "volumes { enabled = true }"}, true},
		{"volume-inside", `volumes = ["${NOMAD_TASK_DIR}/x:/x"]`, []string{"config.volumes", `write "local/x"`}, true},
		{"volume-form", `volumes = ["local/x"]`, []string{"config.volumes", "SOURCE:TARGET"}, false},
		{"volume-escape", `volumes = ["../../../etc:/host"]`, []string{"config.volumes", "not allowed"}, false},
		{"volume-driver", "volume_driver = \"nfs\"\nvolumes = [\"x:/x\"]", []string{"config.volume_driver", "volumes { enabled = true }"}, false},
		{"mount-missing", "mount {\n type = \"bind\"\n source = \"local/none\"\n target = \"/x\"\n }", []string{"config.mount", "does not exist"}, true},
		{"mount-type", "mount {\n type = \"nfs\"\n target = \"/x\"\n }", []string{"config.mount", "nfs"}, false},
		{"mount-target", "mount {\n type = \"tmpfs\"\n }", []string{"config.mount", "target"}, false},
		{"mount-propagation", "mount {\n type = \"bind\"\n source = \"local\"\n target = \"/x\"\n bind_options { propagation = \"sideways\" }\n }", []string{"config.mount", "sideways"}, false},
		{"privileged", `privileged = true`, []string{"config.privileged", "allow_privileged"}, false},
		{"caps", `cap_add = ["sys_admin"]`, []string{"config.cap_add", "sys_admin", "allow_caps"}, false},
		{"caps-unknown", `cap_drop = ["chwon"]`, []string{"config.cap_drop", "CHWON"}, false},
		{"pids", `pids_limit = 1000`, []string{"config.pids_limit", "100"}, false},
		{"ulimit", `ulimit { nofile = "many" }`, []string{"config.ulimit", "nofile", "many"}, false},
		{"ulimit-unknown", `ulimit { nofiles = "10" }`, []string{"nofiles"}, false},
		{"dns", `dns_servers = ["resolver"]`, []string{"config.dns_servers", "resolver"}, false},
		{"hosts", `extra_hosts = ["db"]`, []string{"config.extra_hosts", "NAME:ADDRESS"}, false},
		{"mode", `network_mode = "nowhere"`, []string{"nowhere"}, true},
		{"aliases", `network_aliases = ["x"]`, []string{"network_aliases", "network_mode"}, false},
		{"mac", `mac_address = "x"`, []string{"config.mac_address"}, false},
		{"address", "network_mode = \"host\"\nipv4_address = \"10.0.0.7\"", []string{"ipv4_address"}, false},
		{"runtime", `runtime = "kata"`, []string{"config.runtime", "allow_runtimes"}, false},
		{"pid-mode", `pid_mode = "host"`, []string{"config.pid_mode", "allowed_modes"}, false},
		{"cgroupns", `cgroupns = "shared"`, []string{"config.cgroupns", "shared"}, false},
		{"hard", `memory_hard_limit = 10`, []string{"config.memory_hard_limit", "10"}, true},
		{"period", "cpu_hard_limit = true\ncpu_cfs_period = 5", []string{"config.cpu_cfs_period"}, false},
		{"shm", `shm_size = -5`, []string{"config.shm_size"}, false},
		{"oom", `oom_score_adj = 5000`, []string{"config.oom_score_adj"}, false},
		{"device", `devices = [{ host_path = "/dev/nothing-here" }]`, []string{"/dev/nothing-here"}, false},
		{"device-rights", `devices = [{ host_path = "/dev/null", cgroup_permissions = "rx" }]`, []string{"config.devices", "rx"}, false},
		{"logging", `logging { type = "nosuch" }`, []string{"nosuch"}, true},
		{"labels", `labels = { "io.drover.owner" = "me" }`, []string{"config.labels", "io.drover."}, false},
		{"command", `command = "/bin/nothing"`, []string{"/bin/nothing"}, true},
		{"user", `security_opt = ["nosuch=thing"]`, []string{"nosuch"}, false},
		{"timeout", "image = \"nothing:1\"\nimage_pull_timeout = \"soon\"", []string{"config.image_pull_timeout", "soon"}, false},
		{"name", `image = "Upper Case"`, []string{"config.image", "Upper Case"}, false},
		{"load", `load = "nothing.tar"`, []string{"config.load", "nothing.tar", "artifact"}, true},
		{"isolation", `isolation = "hyperv"`, []string{"config.isolation", "Windows"}, true},
		{"storage", `storage_opt = { size = "1G" }`, []string{"storage"}, true},
		{"sysctl", `sysctl = { "kernel.hostname" = "x" }`, []string{"kernel.hostname"}, true},
	}
	refused := map[string]string{} // by name: what job run says
	for _, c := range cases {
		file := a.Write(c.name+".nomad.hcl", 0o644, dockerCase{name: c.name, config: c.config}.hcl())
		if out, code := a.CLI("job", "run", "-detach", file); code != 0 {
			refused[c.name] = out
		}
	}
	for _, c := range cases {
		said, early := refused[c.name]
		if early != !c.starts {
			t.Errorf("%s: refused before it runs: %v\n%s", c.name, early, said)
		}
		if early && !strings.Contains(said, c.name+".nomad.hcl:") {
			t.Errorf("%s: job run does not say where the mistake is\n%s", c.name, said)
		}
		if !early {
			said = a.failure(c.name)
		}
		for _, want := range c.says {
			if !strings.Contains(said, want) {
				t.Errorf("%s: %q does not say %q", c.name, said, want)
			}
		}
	}
}

// failure returns why the task of a job could not be started.
func (a *agent) failure(job string) (says string) {
	a.T.Helper()
	alloc := a.awaitOne(job, model.AllocClientStatusFailed)
	if alloc == nil {
		a.T.Errorf("%s: did not fail", job)
		return ""
	}
	for _, e := range alloc.TaskStates["t"].Events {
		if e.Type == "Driver Failure" || e.Type == "Failed Validation" {
			says = e.DisplayMessage
		}
	}
	return says
}

// awaitOne waits until the only alloc of a job has a client status. It returns nil
// if that never happens.
func (a *agent) awaitOne(job, status string) (out *model.AllocListStub) {
	a.T.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(harness.Patience); time.Now().Before(end); <-tick.C {
		if got := a.Allocs(job, status); len(got) == 1 {
			return got[0]
		}
	}
	return nil
}
