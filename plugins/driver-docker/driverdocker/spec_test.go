// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/schema"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

func applied(t *testing.T, s schema.Schema, config map[string]any) []byte {
	t.Helper()
	full, err := s.Apply(config)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// input returns the input for a container; the alloc has its own directory.
func input(t *testing.T, agent, task map[string]any) specInput {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a")
	for _, d := range []string{"alloc/logs", "web/local", "web/secrets", "other/local"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	a, err := parseAgentConfig(applied(t, agentSchema(), agent))
	if err != nil {
		t.Fatal(err)
	}
	block := map[string]any{"image": "web:1"}
	maps.Copy(block, task)
	c, err := parseTaskConfig(applied(t, taskSchema(), block))
	if err != nil {
		t.Fatal(err)
	}
	return specInput{
		task: &driver.TaskConfig{
			ID: "0c3e7a60/web/1", Name: "web", Namespace: "default", JobID: "shop", JobName: "Shop", TaskGroup: "app",
			AllocID: "0c3e7a60-aaaa-bbbb-cccc-0123456789ab", NodeID: "n1", NodeName: "host", Env: map[string]string{"B": "2", "A": "1"},
			Resources: driver.Resources{CPUMHz: 500, CPUPercent: 25, MemoryMB: 256},
			Ports:     []driver.Port{{Label: "http", Value: 28081, To: 80, HostIP: "127.0.0.1"}, {Label: "raw", Value: 28082}},
			AllocDir:  dir, TaskDir: filepath.Join(dir, "web"),
		},
		config: c, agent: a, owner: "owner-1", image: "sha256:abc", api: "1.45", host: facts{known: true, cpus: 4, os: "linux", runtimes: []string{"runc", "nvidia"}},
		source: checked,
	}
}

var everything = map[string]any{
	"command": "/bin/server", "args": []any{"-v"}, "entrypoint": []any{"/init"}, "work_dir": "/srv", "hostname": "web-1",
	"init": true, "interactive": true, "tty": true, "labels": map[string]any{"team": "a"},
	"logging": map[string]any{"driver": "local", "config": map[string]any{"max-size": "1m"}}, "healthchecks": map[string]any{"disable": true},
	"volumes": []any{"local/conf:/etc/conf:ro", "../alloc/data:/data"}, "readonly_rootfs": true,
	"mount": []any{
		map[string]any{"type": "bind", "source": "local", "target": "/mnt/local", "readonly": true, "bind_options": map[string]any{"propagation": "rshared"}},
		map[string]any{"type": "tmpfs", "target": "/scratch", "tmpfs_options": map[string]any{"mode": 448, "size": 1048576}},
		map[string]any{"source": "cache", "target": "/cache", "volume_options": map[string]any{"no_copy": true, "labels": map[string]any{"x": "y"}}},
	},
	"mounts":      map[string]any{"target": "/more"},
	"devices":     []any{map[string]any{"host_path": "/dev/null"}, map[string]any{"host_path": "/dev/zero", "container_path": "/dev/z", "cgroup_permissions": "r"}},
	"storage_opt": map[string]any{"size": "1G"}, "network_mode": "backend", "network_aliases": []any{"web"}, "ipv4_address": "10.5.0.7",
	"ipv6_address": "fd00::7", "mac_address": "02:42:ac:11:00:07", "ports": []any{"http", "raw"}, "dns_servers": []any{"10.0.0.53"},
	"dns_search_domains": []any{"example"}, "dns_options": []any{"ndots:1"}, "extra_hosts": []any{"db:10.0.0.9"},
	"cap_add": []any{"CAP_net_bind_service"}, "cap_drop": []any{"mknod"}, "security_opt": []any{"no-new-privileges"}, "group_add": []any{"33"},
	"cgroupns": "private", "ipc_mode": "private", "cpuset_cpus": "0-1", "cpu_hard_limit": true, "cpu_cfs_period": 50000,
	"memory_hard_limit": 512, "shm_size": 1048576, "pids_limit": 50, "oom_score_adj": 100,
	"ulimit": map[string]any{"nofile": "1024:2048", "nproc": "64"}, "sysctl": map[string]any{"net.core.somaxconn": "1024"}, "runtime": "runc",
}

// TestAContainerIsWhatItsConfigSays compares the containers with testdata. With
// -rewrite it writes testdata.
func TestAContainerIsWhatItsConfigSays(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the daemon's defaults differ")
	}
	for name, c := range map[string]struct{ agent, task map[string]any }{
		"plain":      {},
		"everything": {map[string]any{"extra_labels": []any{"job_*", "task_name"}, "pids_limit": 100}, everything},
		"privileged": {map[string]any{"allow_privileged": true, "volumes": map[string]any{"enabled": true, "selinuxlabel": "z"}}, map[string]any{
			"privileged": true, "pid_mode": "host", "network_mode": "host", "ports": []any{"http"}, "volumes": []any{"/var/run:/var/run"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(t, c.agent, c.task)
			spec, err := buildSpec(in)
			if err != nil {
				t.Fatal(err)
			}
			body, err := json.MarshalIndent(struct {
				Name                     string
				Config, Host, Networking any
			}{spec.Name, spec.Config, spec.HostConfig, spec.NetworkingConfig}, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			got := strings.ReplaceAll(string(body), filepath.Dir(in.task.TaskDir), "ALLOC") + "\n"
			golden := filepath.Join("testdata", "spec-"+name+".json")
			if *rewrite {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got %s\nwant %s", got, want)
			}
		})
	}
}

func TestWhatAnOperatorDoesNotAllowIsRefused(t *testing.T) {
	for name, task := range map[string]map[string]any{
		"privileged":        {"privileged": true},
		"capability":        {"cap_add": []any{"sys_admin"}},
		"all capabilities":  {"cap_add": []any{"all"}},
		"runtime":           {"runtime": "kata"},
		"host pids":         {"pid_mode": "host"},
		"foreign pids":      {"pid_mode": "container:x"},
		"host ipc":          {"ipc_mode": "host"},
		"host users":        {"userns_mode": "host"},
		"host name":         {"uts_mode": "host"},
		"host path":         {"volumes": []any{"/etc:/etc"}},
		"path out of alloc": {"volumes": []any{"../../../etc:/etc"}},
		"another task":      {"volumes": []any{"../other/local:/x"}},
		"bind of host path": {"mount": map[string]any{"type": "bind", "source": "/", "target": "/host"}},
		"volume driver":     {"volume_driver": "nfs", "volumes": []any{"x:/x"}},
		"device":            {"devices": map[string]any{"host_path": "/dev/sda"}},
		"folder of devices": {"devices": map[string]any{"host_path": "/dev"}},
		"no seccomp":        {"security_opt": []any{"seccomp=unconfined"}},
		"own seccomp":       {"security_opt": []any{"seccomp={}"}},
		"no seccomp, old":   {"security_opt": []any{"seccomp:unconfined"}},
		"no apparmor":       {"security_opt": []any{"apparmor=unconfined"}},
		"no labels":         {"security_opt": []any{"label=disable"}},
		"no masked paths":   {"security_opt": []any{"systempaths=unconfined"}},
		"new privileges":    {"security_opt": []any{"no-new-privileges=false"}},
		"driver of a mount": {"mount": map[string]any{"target": "/x", "volume_options": map[string]any{"driver_config": map[string]any{"name": "local", "options": map[string]any{"o": "bind", "device": "/"}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := buildSpec(input(t, nil, task)); !errdefs.IsPermissionDenied(err) {
				t.Errorf("class %s, %v", errdefs.ClassOf(err), err)
			}
		})
	}
}

func TestWhatAnOperatorAllowsIsDone(t *testing.T) {
	agent := map[string]any{
		"allow_caps": []any{"ALL"}, "allow_runtimes": []any{"kata"}, "volumes": map[string]any{"enabled": true},
		"allow_devices": []any{"/dev/fuse", "/dev/snd/*"}, "allow_security_opt": []any{"seccomp=unconfined"},
		"allowed_modes": map[string]any{"pid": []any{"host"}, "ipc": []any{"host"}, "uts": []any{"host"}, "userns": []any{"host"}},
	}
	for name, task := range map[string]map[string]any{
		"capability": {"cap_add": []any{"sys_admin"}}, "all capabilities": {"cap_add": []any{"all"}}, "runtime": {"runtime": "kata"},
		"host pids": {"pid_mode": "host"}, "host ipc": {"ipc_mode": "host"}, "host users": {"userns_mode": "host"}, "host name": {"uts_mode": "host"},
		"host path": {"volumes": []any{"/etc:/etc"}}, "volume driver": {"volume_driver": "nfs", "volumes": []any{"x:/x"}},
		"bind of host path": {"mount": map[string]any{"type": "bind", "source": "/", "target": "/host"}},
		"device":            {"devices": map[string]any{"host_path": "/dev/fuse"}}, "device by pattern": {"devices": map[string]any{"host_path": "/dev/snd/timer"}},
		"no seccomp": {"security_opt": []any{"seccomp=unconfined"}}, "no seccomp, old": {"security_opt": []any{"seccomp:unconfined"}},
		"nothing new": {"security_opt": []any{"no-new-privileges:true"}, "devices": map[string]any{"host_path": "/dev/null"}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := buildSpec(input(t, agent, task)); err != nil {
				t.Error(err)
			}
		})
	}
	for _, device := range []string{"/dev/sda", "/dev/snd/../sda", "/dev/snd/x/../../sda", "/dev/snd"} {
		if _, err := buildSpec(input(t, agent, map[string]any{"devices": map[string]any{"host_path": device}})); !errdefs.IsPermissionDenied(err) {
			t.Errorf("the device %s that is not among the allowed ones: %v", device, err)
		}
	}
	if _, err := buildSpec(input(t, agent, map[string]any{"pid_mode": "container:x"})); !errdefs.IsPermissionDenied(err) {
		t.Errorf("a mode that is not among the allowed ones: %v", err)
	}
}

func TestAConfigThatMeansNothingIsRefusedWithItsCause(t *testing.T) {
	for name, c := range map[string]struct {
		task map[string]any
		says string
	}{
		"port":          {map[string]any{"ports": []any{"nope"}}, `no port "nope"`},
		"port map":      {map[string]any{"port_map": map[string]any{"http": 70000}}, "is not a port"},
		"ulimit":        {map[string]any{"ulimit": map[string]any{"nofile": "many"}}, "ulimit"},
		"soft ulimit":   {map[string]any{"ulimit": map[string]any{"nofile": "9:8"}}, "ulimit"},
		"memory":        {map[string]any{"memory_hard_limit": 8}, "memory_hard_limit"},
		"period":        {map[string]any{"cpu_hard_limit": true, "cpu_cfs_period": 5}, "cpu_cfs_period"},
		"dns":           {map[string]any{"dns_servers": []any{"dns.example"}}, "not an IP address"},
		"hosts":         {map[string]any{"extra_hosts": []any{"db"}}, "NAME:ADDRESS"},
		"mac":           {map[string]any{"mac_address": "xx"}, "hardware address"},
		"alias":         {map[string]any{"network_aliases": []any{"x"}}, "network_mode"},
		"ipv4":          {map[string]any{"network_mode": "n", "ipv4_address": "fd00::1"}, "ipv4_address"},
		"mount type":    {map[string]any{"mount": map[string]any{"type": "magic", "target": "/x"}}, "none of bind"},
		"no target":     {map[string]any{"mount": map[string]any{"type": "bind", "source": "local"}}, "no target"},
		"missing bind":  {map[string]any{"mount": map[string]any{"type": "bind", "source": "local/nope", "target": "/x"}}, "does not exist"},
		"tmpfs source":  {map[string]any{"mount": map[string]any{"type": "tmpfs", "source": "x", "target": "/x"}}, "no source"},
		"volume":        {map[string]any{"volumes": []any{"local"}}, "SOURCE:TARGET"},
		"isolation":     {map[string]any{"isolation": "hyperv"}, "Windows"},
		"cgroupns":      {map[string]any{"cgroupns": "x"}, "cgroupns"},
		"own label":     {map[string]any{"labels": map[string]any{"io.drover.owner": "me"}}, "driver's own"},
		"device":        {map[string]any{"devices": map[string]any{"container_path": "/dev/x"}}, "host_path"},
		"device rights": {map[string]any{"devices": map[string]any{"host_path": "/dev/null", "cgroup_permissions": "rx"}}, "r, w and m"},
		"no capability": {map[string]any{"cap_drop": []any{"chwon"}}, "CHWON"},
		"no ulimit":     {map[string]any{"ulimit": map[string]any{"nofiles": "1"}}, "nofiles"},
		"shm":           {map[string]any{"shm_size": -1}, "shm_size"},
		"propagation":   {map[string]any{"mount": map[string]any{"type": "bind", "source": "local", "target": "/x", "bind_options": map[string]any{"propagation": "sideways"}}}, "sideways"},
		"oom":           {map[string]any{"oom_score_adj": 5000}, "oom_score_adj"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := buildSpec(input(t, nil, c.task))
			if !errdefs.IsInvalidArgument(err) || err == nil || !has(err, c.says) {
				t.Errorf("class %s, %v; want it to say %q", errdefs.ClassOf(err), err, c.says)
			}
		})
	}
	in := input(t, map[string]any{"pids_limit": 10}, map[string]any{"pids_limit": 11})
	if _, err := buildSpec(in); !errdefs.IsInvalidArgument(err) {
		t.Errorf("more processes than the node allows: %v", err)
	}
	in = input(t, nil, map[string]any{"cpuset_cpus": "0"})
	in.task.Resources.Cores = []int{1}
	if _, err := buildSpec(in); !errdefs.IsInvalidArgument(err) {
		t.Errorf("two ways to choose cores: %v", err)
	}
}

func has(err error, text string) bool {
	said := err.Error()
	return strings.Contains(said, text)
}

func TestALinkThatATaskMadeIsNotMounted(t *testing.T) {
	for name, volume := range map[string]string{"the path itself": "local/trap:/x", "beneath it": "local/trap/etc:/x", "in the shared folder": "../alloc/trap:/x"} {
		t.Run(name, func(t *testing.T) {
			in := input(t, nil, map[string]any{"volumes": []any{volume}})
			for _, dir := range []string{filepath.Join(in.task.TaskDir, "local"), filepath.Join(in.task.AllocDir, "alloc")} {
				if err := os.Symlink("/", filepath.Join(dir, "trap")); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := buildSpec(in); !errdefs.IsInvalidArgument(err) {
				t.Errorf("class %s, %v", errdefs.ClassOf(err), err)
			}
		})
	}
}

func TestResourcesReachTheContainer(t *testing.T) {
	build := func(change func(*driver.Resources), task map[string]any) client.ContainerCreateOptions {
		in := input(t, nil, task)
		change(&in.task.Resources)
		spec, err := buildSpec(in)
		if err != nil {
			t.Fatal(err)
		}
		return spec
	}
	h := build(func(r *driver.Resources) { r.Cores = []int{3, 1}; r.MemoryMaxMB = 512 }, nil).HostConfig
	if h.CpusetCpus != "1,3" || h.Memory != 512<<20 || h.MemoryReservation != 256<<20 || h.MemorySwap != h.Memory {
		t.Errorf("cores and memory_max: %+v", h.Resources)
	}
	h = build(func(*driver.Resources) {}, nil).HostConfig
	if h.Memory != 256<<20 || h.MemoryReservation != 0 || h.CPUShares != 500 || h.CPUQuota != 0 {
		t.Errorf("plain: %+v", h.Resources)
	}
	h = build(func(*driver.Resources) {}, map[string]any{"cpu_hard_limit": true}).HostConfig
	if h.CPUPeriod != 100000 || h.CPUQuota != 100000 { // a quarter of four cores
		t.Errorf("hard limit: %d of %d", h.CPUQuota, h.CPUPeriod)
	}
}

func TestCapabilitiesAreThoseThatAreAllowed(t *testing.T) {
	some := []string{"CHOWN", "KILL", "SYS_TIME"}
	for name, c := range map[string]struct {
		allow, add, drop []string
		want             string
	}{
		"default":        {some, nil, nil, "CHOWN KILL"},
		"dropped":        {some, nil, []string{"cap_kill"}, "CHOWN"},
		"all dropped":    {some, []string{"sys_time"}, []string{"all"}, "SYS_TIME"},
		"added":          {some, []string{"sys_time"}, nil, "CHOWN KILL SYS_TIME"},
		"all of nothing": {[]string{"all"}, []string{"all"}, nil, "ALL"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := capabilities(c.allow, c.add, c.drop)
			if err != nil || strings.Join(got, " ") != c.want {
				t.Errorf("got %v, %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestAgentConfigThatCannotWorkIsRefused(t *testing.T) {
	for name, config := range map[string]map[string]any{
		"duration":     {"image_pull_timeout": "soon"},
		"no time":      {"image_pull_timeout": "0s"},
		"delay":        {"gc": map[string]any{"image_delay": "x"}},
		"half a key":   {"tls": map[string]any{"cert": "x"}},
		"extra labels": {"extra_labels": []any{"weather"}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parseAgentConfig(applied(t, agentSchema(), config)); !errdefs.IsInvalidArgument(err) {
				t.Errorf("class %s, %v", errdefs.ClassOf(err), err)
			}
		})
	}
}

func TestGPUsComeByTheWayThatTheDaemonKnows(t *testing.T) {
	const names = "GPU-1,GPU-2"
	for what, c := range map[string]struct {
		host     facts
		task     map[string]any
		cdi      []string
		runtime  string
		requests int
		fails    func(error) bool
	}{
		"CDI where the daemon resolves it": {host: facts{known: true, os: "linux", cdi: true}, cdi: []string{"nvidia.com/gpu=0"}, requests: 1},
		"else NVIDIA's runtime":            {host: facts{known: true, os: "linux", runtimes: []string{"runc", "nvidia"}}, cdi: []string{"nvidia.com/gpu=0"}, runtime: "nvidia"},
		"a task's own runtime is left":     {host: facts{known: true, os: "linux", cdi: true}, task: map[string]any{"runtime": "runc"}, cdi: []string{"nvidia.com/gpu=0"}, runtime: "runc"},
		"and neither is an error":          {host: facts{known: true, os: "linux", runtimes: []string{"runc"}}, fails: errdefs.IsFailedPrecondition},
	} {
		t.Run(what, func(t *testing.T) {
			in := input(t, nil, c.task)
			in.host, in.task.CDIDevices = c.host, c.cdi
			in.task.DeviceEnv = map[string]string{visibleGPUs: names}
			spec, err := buildSpec(in)
			if c.fails != nil {
				if !c.fails(err) || !strings.Contains(err.Error(), "nvidia-container-toolkit") {
					t.Fatalf("want an error that says what to install, got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if spec.HostConfig.Runtime != c.runtime || len(spec.HostConfig.DeviceRequests) != c.requests {
				t.Errorf("runtime %q and requests %+v", spec.HostConfig.Runtime, spec.HostConfig.DeviceRequests)
			}
			if c.requests > 0 && !slices.Equal(spec.HostConfig.DeviceRequests[0].DeviceIDs, c.cdi) {
				t.Errorf("the daemon is asked for %+v", spec.HostConfig.DeviceRequests)
			}
		})
	}
}

func TestAContainerHasItsOwnNameInTheMachinesNetwork(t *testing.T) {
	for mode, want := range map[string]string{"host": "web-1", "none": "web-1", "container:other": ""} {
		spec, err := buildSpec(input(t, map[string]any{"allow_privileged": true}, map[string]any{"hostname": "web-1", "network_mode": mode}))
		if err != nil || spec.Config.Hostname != want {
			t.Errorf("network_mode %q: hostname %q, want %q: %v", mode, spec.Config.Hostname, want, err)
		}
	}
}
