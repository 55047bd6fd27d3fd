// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugins_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/test/e2e/harness"
)

// goIn runs the go command in a directory without network access: a generated plugin
// needs nothing that this repository does not have.
func goIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off", "GOFLAGS=-trimpath", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s in %s: %v\n%s", strings.Join(args, " "), dir, err, out)
	}
	return string(out)
}

// newPlugin generates a plugin of the kind with `drover plugin new`, builds it and
// runs its test. It returns the module's directory and the executable.
func newPlugin(t *testing.T, a *agent, kind string) (dir, executable string) {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	name := "my-" + kind
	a.Must("plugin", "new", "-kind", kind, "-dir", a.Dir, "-module", "example.org/me/"+name, "-replace", root, name)
	dir = filepath.Join(a.Dir, name)
	goIn(t, dir, "vet", "./...")
	if out := goIn(t, dir, "test", "-count=1", "./..."); !strings.Contains(out, "ok  \texample.org/me/"+name+"/") {
		t.Fatalf("the plugin's own test did not run:\n%s", out)
	}
	executable = filepath.Join(a.Dir, name+"-plugin")
	goIn(t, dir, "build", "-o", executable, ".")
	return dir, executable
}

// install adds the plugin and the configuration of its agent.hcl to the agent.
func (a *agent) install(name, dir, executable string) {
	a.T.Helper()
	body, err := os.ReadFile(executable)
	if err != nil {
		a.T.Fatal(err)
	}
	a.Write(filepath.Join("plugins", name), 0o755, string(body))
	config, err := os.ReadFile(filepath.Join(dir, "agent.hcl"))
	if err != nil {
		a.T.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(a.Dir, "agent.hcl"))
	if err != nil {
		a.T.Fatal(err)
	}
	// The harness already has a block for raw_exec.
	own, _, _ := strings.Cut(string(config), `plugin "raw_exec"`)
	a.Write("agent.hcl", 0o600, string(before)+own)
}

func TestANewDriverPassesItsRulesAndRunsAJob(t *testing.T) {
	a := newAgent(t)
	dir, executable := newPlugin(t, a, "driver")
	if out, code := a.CLIWithin(5*time.Minute, "plugin", "check", executable); code != 0 || !strings.Contains(out, " 0 failed") {
		t.Errorf("plugin check: exit code %d\n%s", code, out)
	}
	a.install("my-driver", dir, executable)
	a.start()
	a.Must("job", "run", "-detach", filepath.Join(dir, "example.nomad.hcl"))
	first := a.Await("my-driver-example", "running", 1)[0]
	a.Eventually(10*time.Second, "the task's output is in its log", func() bool {
		out, _ := a.CLI("alloc", "logs", first.ID)
		return strings.Contains(out, "hello from hello")
	})
}

// TestANewDriverInASandboxPassesItsRulesAndKeepsAJobInIt leaves the driver's own test to the
// example, which is the same code.
func TestANewDriverInASandboxPassesItsRulesAndKeepsAJobInIt(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("isolation needs root")
	}
	a := newAgent(t)
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	a.Must("plugin", "new", "-isolation", "-dir", a.Dir, "-module", "example.org/me/boxed", "-replace", root, "boxed")
	dir, executable := filepath.Join(a.Dir, "boxed"), filepath.Join(a.Dir, "boxed-plugin")
	goIn(t, dir, "vet", "./...")
	goIn(t, dir, "build", "-o", executable, ".")
	if out, code := a.CLIWithin(5*time.Minute, "plugin", "check", executable); code != 0 || !strings.Contains(out, " 0 failed") {
		t.Errorf("plugin check: exit code %d\n%s", code, out)
	}
	once := a.Write("once.nomad.hcl", 0o600, `job "once" {
  group "g" {
    task "t" {
      driver = "boxed"
      user   = "daemon"
      config {
        command = "/bin/sh"
        args    = ["-c", "id -un; [ -d /local ] && ! ls `+a.Dir+` 2>/dev/null && exit 7"]
      }
    }
  }
}`)
	if out, code := a.CLI("plugin", "run", executable, once); code != 7 || !strings.Contains(out, "daemon\n") {
		t.Errorf("plugin run: exit code %d\n%s", code, out)
	}
	a.install("boxed", dir, executable)
	a.start()
	a.Must("job", "run", "-detach", filepath.Join(dir, "example.nomad.hcl"))
	first := a.Await("boxed-example", "running", 1)[0]
	a.Eventually(harness.Patience, "the task's output is in its log", func() bool {
		out, _ := a.CLI("alloc", "logs", first.ID)
		return strings.Contains(out, "uid=65534(nobody)") && strings.Contains(out, "hello from hello")
	})
	if out, code := a.CLI("alloc", "exec", first.ID, "/bin/sh", "-c", "id -un; ls -d "+a.Dir); code == 0 || !strings.Contains(out, "nobody") {
		t.Errorf("a command in the task: exit code %d\n%s", code, out)
	}
	a.Must("job", "stop", "-detach", "boxed-example")
	a.Await("boxed-example", "complete", 1)
	a.Eventually(harness.Patience, "nothing of the task is left", func() bool { return len(a.Processes("hello from")) == 0 })
}

func TestANewDevicePluginPassesItsRulesAndGivesATaskItsDevice(t *testing.T) {
	a := newAgent(t)
	dir, executable := newPlugin(t, a, "device")
	if out, code := a.CLIWithin(5*time.Minute, "plugin", "check", executable); code != 0 || !strings.Contains(out, " 0 failed") {
		t.Errorf("plugin check: exit code %d\n%s", code, out)
	}
	a.install("my-device", dir, executable)
	a.start()
	a.Must("job", "run", "-detach", filepath.Join(dir, "example.nomad.hcl"))
	first := a.Await("my-device-example", "running", 1)[0]
	a.Eventually(10*time.Second, "the task sees its device", func() bool {
		out, _ := a.CLI("alloc", "logs", first.ID)
		return strings.Contains(out, "mine is /dev/null")
	})
}

// TestANewNetworkPassesItsRulesAndLeadsAPortToAJob also looks at what is left when the job
// has ended.
func TestANewNetworkPassesItsRulesAndLeadsAPortToAJob(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("networks are made by root")
	}
	for _, tool := range []string{"ip", "nft", "nsenter", "/usr/bin/python3"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs the Debian packages iproute2, nftables, util-linux and python3: %v", err)
		}
	}
	a := newAgent(t)
	dir, executable := newPlugin(t, a, "network")
	if out, code := a.CLIWithin(5*time.Minute, "plugin", "check", executable); code != 0 || !strings.Contains(out, " 0 failed") || !strings.Contains(out, "pass  interrupted") {
		t.Errorf("plugin check: exit code %d\n%s", code, out)
	}
	a.install("my-network", dir, executable)
	a.start()
	a.Must("job", "run", "-detach", a.Write("net.nomad.hcl", 0o600, inNewNetwork))
	first := a.Await("net", "running", 1)[0]
	left := filepath.Join("/run/netns", "my-network-"+first.ID)
	if _, err := os.Stat(left); err != nil {
		t.Errorf("the alloc has no namespace: %v", err)
	}
	get := func() bool {
		resp, err := http.Get("http://127.0.0.1:28765/")
		if err != nil {
			return false
		}
		_ = resp.Body.Close() // only the status counts
		return resp.StatusCode == http.StatusOK
	}
	a.Eventually(time.Minute, "the port leads to the task", get)
	a.Must("job", "stop", "-detach", "net")
	a.Await("net", "complete", 1)
	a.Eventually(time.Minute, "nothing of the network is left", func() bool {
		_, err := os.Lstat(left)
		rules, _ := exec.CommandContext(t.Context(), "nft", "list", "tables").Output()
		return os.IsNotExist(err) && !strings.Contains(string(rules), "my_network_") && !get()
	})
}

// inNewNetwork serves HTTP in a network of the generated plugin.
const inNewNetwork = `job "net" {
  group "g" {
    network {
      mode = "cni/my-network"
      port "http" {
        static = 28765
        to     = 8080
      }
    }
    task "web" {
      driver = "exec"
      config {
        command = "/usr/bin/python3"
        args    = ["-m", "http.server", "8080"]
      }
      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
`

func TestANewCollectorPassesItsRules(t *testing.T) {
	a := newAgent(t)
	_, executable := newPlugin(t, a, "stats")
	if out, code := a.CLIWithin(5*time.Minute, "plugin", "check", executable); code != 0 || !strings.Contains(out, " 0 failed") || !strings.Contains(out, `Collector "my-stats"`) {
		t.Errorf("plugin check: exit code %d\n%s", code, out)
	}
}

// TestANewStoragePluginPassesItsRulesAndKeepsTheDataOfAJob creates the example's volume and
// runs its job twice.
func TestANewStoragePluginPassesItsRulesAndKeepsTheDataOfAJob(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	a := newAgent(t)
	dir, executable := newPlugin(t, a, "volume")
	if out, code := a.CLIWithin(5*time.Minute, "plugin", "check", executable); code != 0 || !strings.Contains(out, " 0 failed") {
		t.Errorf("plugin check: exit code %d\n%s", code, out)
	}
	a.install("my-volume", dir, executable)
	a.start()
	a.Eventually(harness.Patience, "the plugin serves its volumes", func() bool {
		out, _ := a.CLI("plugin", "status", "my-volume")
		return strings.Contains(out, "running") && strings.Contains(out, "volume")
	})
	a.Eventually(harness.Patience, "the volume is made", func() bool {
		_, code := a.CLI("volume", "create", filepath.Join(dir, "volume.hcl"))
		return code == 0
	})
	starts := func(want int) {
		t.Helper()
		a.Must("job", "run", "-detach", filepath.Join(dir, "example.nomad.hcl"))
		a.Eventually(harness.Patience, fmt.Sprintf("the task has written to the volume %d times", want), func() bool {
			out, _ := a.CLI("alloc", "logs", "-job", "my-volume-example")
			return strings.Count(out, "\n") == want
		})
		a.Must("job", "stop", "-purge", "my-volume-example")
	}
	starts(1)
	starts(2)
	a.Eventually(harness.Patience, "the volume is deleted when nothing uses it", func() bool {
		_, code := a.CLI("volume", "delete", "my-volume-example")
		return code == 0
	})
	a.Eventually(harness.Patience, "no mount is left", func() bool {
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		return err == nil && !strings.Contains(string(mounts), a.Dir+"/data/client/plugin-state")
	})
}

// TestANewRegistryPassesItsRulesAndHasTheServicesOfAJob reads the registry's directory, which
// others would ask for the services.
func TestANewRegistryPassesItsRulesAndHasTheServicesOfAJob(t *testing.T) {
	a := newAgent(t)
	dir, executable := newPlugin(t, a, "registry")
	out, code := a.CLIWithin(5*time.Minute, "plugin", "check", executable)
	if code != 0 || !strings.Contains(out, " 0 failed") || strings.Count(out, "skip ") != 1 || !strings.Contains(out, "skip  login") {
		t.Errorf("plugin check: exit code %d\n%s", code, out)
	}
	cluster := filepath.Join(a.Dir, "services")
	if err := os.Mkdir(cluster, 0o755); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(dir, "agent.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("# write_paths", "write_paths", "# dir", "dir", "/srv/services", cluster).Replace(string(config))
	if err := os.WriteFile(filepath.Join(dir, "agent.hcl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a.install("my-registry", dir, executable)
	a.start()
	a.Must("job", "run", "-detach", filepath.Join(dir, "example.nomad.hcl"))
	first := a.Await("my-registry-example", "running", 1)[0]
	registered := func() string {
		files, err := filepath.Glob(filepath.Join(cluster, "*.json"))
		if err != nil || len(files) == 0 {
			return ""
		}
		body, _ := os.ReadFile(files[0]) // it may have gone since
		return string(body)
	}
	a.Eventually(harness.Patience, "the service is registered, and its check passes", func() bool {
		body := registered()
		return strings.Contains(body, first.ID) && strings.Contains(body, `"Name": "hello"`) && strings.Contains(body, `"Status": "passing"`)
	})
	a.Must("job", "stop", "-detach", "my-registry-example")
	a.Eventually(harness.Patience, "the service is gone with its task", func() bool { return !strings.Contains(registered(), first.ID) })
	elsewhere := a.Write("elsewhere.nomad.hcl", 0o600, inNoRegistry)
	if out, code := a.CLI("job", "plan", elsewhere); !strings.Contains(out, "${attr.nowhere.version}") {
		t.Errorf("a job whose service names a registry that no node has is planned with exit code %d\n%s", code, out)
	}
}

// inNoRegistry has a service of a provider that is no plugin of any node.
const inNoRegistry = `job "elsewhere" {
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["3600"]
      }
      service {
        name         = "s"
        provider     = "nowhere"
        port         = 80
        address_mode = "host"
      }
    }
  }
}
`

func TestPluginCheckSaysByItsExitCodeWhatCameOfIt(t *testing.T) {
	a := newAgent(t)
	garbage := a.Write("garbage", 0o755, "#!/bin/sh\necho hello\n")
	if out, code := a.CLI("plugin", "check", garbage); code != 2 || !strings.Contains(out, "FAIL  handshake") {
		t.Errorf("of what is no plugin: exit code %d, want 2\n%s", code, out)
	}
	if out, code := a.CLI("plugin", "check", filepath.Join(a.Dir, "nothing")); code != 1 || !strings.Contains(out, "build the plugin first") {
		t.Errorf("of what is not there: exit code %d, want 1\n%s", code, out)
	}
	task := a.Write("task.hcl", 0o600, "command = \"/bin/sh\"\nargs = [\"-c\", \"${script}\"]\n")
	config := a.Write("raw.hcl", 0o600, "enabled = true\n")
	// Check the JSON output; the complete suites of exec and raw_exec are in their own
	// tests.
	args := []string{"plugin", "check", "-json", "-name", "raw_exec", "-config", config, "-task-config", task, "-timeout", "1m"}
	for _, env := range []string{"DROVER_PLUGIN_STATE_DIR=" + a.Dir + "/state", "DROVER_SUPERVISOR_IDLE=2s"} {
		args = append(args, "-env", env)
	}
	out, code := a.CLIWithin(5*time.Minute, append(args, filepath.Join(harness.Bin(), "driver-exec"))...)
	if code != 0 || !strings.Contains(out, `"Failed": 0`) || !strings.Contains(out, `"Name": "recover-ended"`) || !strings.Contains(out, `"BuiltFor": "drover"`) {
		t.Errorf("of raw_exec: exit code %d\n%s", code, out)
	}
}

// TestAPluginInPythonRunsAJob builds what `drover plugin new -lang python` makes of the
// example that uses none of our Go code.
func TestAPluginInPythonRunsAJob(t *testing.T) {
	const python = "/usr/bin/python3"
	if out, err := exec.CommandContext(t.Context(), python, "-c", "import grpc.aio, grpc_tools").CombinedOutput(); err != nil {
		t.Skipf("needs make and the Debian packages python3-grpcio, python3-protobuf and python3-grpc-tools: %v\n%s", err, out)
	}
	a := newAgent(t)
	source, executable := filepath.Join(a.Dir, "python"), filepath.Join(a.Dir, "plugins", "driver-python")
	a.Must("plugin", "new", "-lang", "python", "-dir", a.Dir, "python")
	build := exec.CommandContext(t.Context(), "make", "-C", source, "build", "OUT="+executable)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the plugin: %v\n%s", err, out)
	}
	// a.cli has a short time limit, but here an interpreter starts about forty times.
	check := exec.CommandContext(t.Context(), filepath.Join(harness.Bin(), "drover"), "plugin", "check", "-timeout", "2m", executable)
	if out, err := check.CombinedOutput(); err != nil || !strings.Contains(string(out), " 0 failed") {
		t.Errorf("plugin check: %v\n%s", err, out)
	}
	a.start()
	a.Must("job", "run", "-detach", filepath.Join(source, "example.nomad.hcl"))
	first := a.Await("python-example", "running", 1)[0]
	says := func() bool {
		out, _ := a.CLI("alloc", "logs", first.ID)
		return strings.Contains(out, "hello from hello")
	}
	a.Eventually(20*time.Second, "the task's output is in its log", says)
	if out, code := a.CLI("alloc", "exec", first.ID, "/bin/sh", "-c", "echo inside $NOMAD_TASK_NAME"); code != 0 || !strings.Contains(out, "inside hello") {
		t.Errorf("alloc exec: exit code %d\n%s", code, out)
	}
	a.Must("job", "stop", "-detach", "python-example")
	a.Await("python-example", "complete", 1)

	a.Must("operator", "scheduler", "set-config", "-memory-oversubscription=true")
	a.Must("job", "run", "-detach", a.Write("limited.nomad.hcl", 0o600, limitedPython))
	limited := a.Await("limited", "running", 1)[0]
	a.Eventually(20*time.Second, "the task has one core and memory_max", func() bool {
		out, _ := a.CLI("alloc", "logs", limited.ID)
		return regexp.MustCompile(`(?m)^Cpus_allowed_list:\s*\d+$`).MatchString(out) && strings.Contains(out, fmt.Sprint("limit=", 64<<20))
	})
	path := a.Write("empty.nomad.hcl", 0o600, strings.Replace(limitedPython, `"/bin/sh"`, `" "`, 1))
	if out, code := a.CLI("job", "validate", path); code != 1 || !strings.Contains(out, "empty.nomad.hcl:6,9-16") || !strings.Contains(out, "config.command: is empty; name the program to run") {
		t.Errorf("job validate of an empty command: exit code %d\n%s", code, out)
	}
	// A task that is left with its cgroup would keep its core for itself.
	a.Must("job", "stop", "-detach", "limited")
	a.Await("limited", "complete", 1)
}

// TestACollectorInJavaScriptPassesItsRules builds the example that uses none of our Go code.
// npm fetches its libraries.
func TestACollectorInJavaScriptPassesItsRules(t *testing.T) {
	for _, tool := range []string{"node", "npm", "make"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs make and the Debian packages nodejs and npm: %v", err)
		}
	}
	a := newAgent(t)
	source, executable := filepath.Join(a.Dir, "node"), filepath.Join(a.Dir, "stats-lookup")
	if err := os.CopyFS(source, os.DirFS("../../../examples/plugins/node")); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "make", "-C", source, "node_modules").CombinedOutput(); err != nil {
		t.Skipf("npm cannot fetch the libraries: %v\n%s", err, out)
	}
	proto, err := filepath.Abs("../../../sdk/proto")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "make", "-C", source, "build", "OUT="+executable, "PROTO="+proto).CombinedOutput(); err != nil {
		t.Fatalf("build the plugin: %v\n%s", err, out)
	}
	check := exec.CommandContext(t.Context(), filepath.Join(harness.Bin(), "drover"), "plugin", "check", "-timeout", "2m", executable)
	if out, err := check.CombinedOutput(); err != nil || !strings.Contains(string(out), " 0 failed") || !strings.Contains(string(out), `Collector "lookup"`) {
		t.Errorf("plugin check: %v\n%s", err, out)
	}
}

// limitedPython prints what limits its task has.
const limitedPython = `job "limited" {
  group "g" {
    task "t" {
      driver = "python"
      config {
        command = "/bin/sh"
        args    = ["-c", <<-EOS
          grep Cpus_allowed_list /proc/self/status
          for f in /sys/fs/cgroup/memory$(sed -n s/.*:memory://p /proc/self/cgroup)/memory.limit_in_bytes /sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)/memory.max; do
            [ -r $f ] && echo limit=$(cat $f)
          done
          sleep 3600
        EOS
        ]
      }
      resources {
        cores      = 1
        memory     = 32
        memory_max = 64
      }
    }
  }
}
`
