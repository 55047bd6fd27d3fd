// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// patient returns a context for commands that wait for tasks on a loaded machine.
func (a *agent) patient() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*harness.Patience)
	a.T.Cleanup(cancel)
	return ctx
}

// shows runs a command that must succeed and print all of the texts.
func (a *agent) shows(what []string, args ...string) string {
	a.T.Helper()
	out := a.Must(args...)
	for _, w := range what {
		if !strings.Contains(out, w) {
			a.T.Errorf("drover %s does not show %q:\n%s", strings.Join(args, " "), w, out)
		}
	}
	return out
}

// fails runs a command that must fail with the exit code and the text.
func (a *agent) fails(code int, what string, args ...string) {
	a.T.Helper()
	if out, got := a.CLI(args...); got != code || !strings.Contains(out, what) {
		a.T.Errorf("drover %s: exit code %d, want %d and %q:\n%s", strings.Join(args, " "), got, code, what, out)
	}
}

// script runs a shell script with drover in its PATH and returns its output.
func (a *agent) script(name, script string, args ...string) string {
	a.T.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		a.T.Skip(name + " is not installed")
	}
	cmd := exec.CommandContext(a.patient(), path, append([]string{"-c", script, name}, args...)...)
	cmd.Env = append(os.Environ(), "PATH="+harness.Bin()+":"+os.Getenv("PATH"), "DROVER_ADDR="+a.Addr, "HOME="+a.Dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		a.T.Fatalf("%v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestCLIOfJobsAndAllocations(t *testing.T) {
	a := newAgent(t).start()
	file := a.Write("web.nomad.hcl", 0o644, `variable "word" { default = "one" }
`+strings.Replace(harness.Shell("web", "service", 1, harness.Quick, "echo said-$WORD; echo oops >&2; exec sleep 600"), `config {`, `env {
        WORD = var.word
      }
      action "greet" {
        command = "/bin/sh"
        args    = ["-c", "echo greetings; exit 3"]
      }
      config {`, 1))
	a.fails(1, "Task Group: \"g\" (1 create)", "job", "plan", file)
	a.shows([]string{"successful"}, "job", "run", file)
	a.fails(0, "Scheduler dry-run", "job", "plan", file)
	a.shows([]string{"Job validation successful"}, "validate", file)
	a.shows([]string{"web", "service", "running"}, "status")
	id := a.Await("web", model.AllocClientStatusRunning, 1)[0].ID
	a.shows([]string{"Latest Deployment", id[:8]}, "status", "we")
	a.shows([]string{`Task "t" is "running"`, "Task started by client"}, "alloc", "status", id[:8])
	a.Eventually(10*time.Second, "the task has written", func() bool { return strings.Contains(a.Must("logs", id[:6]), "said-one") })
	a.Eventually(harness.Patience, "its standard error is there, too", func() bool {
		return a.Must("alloc", "logs", "-stderr", "-job", "web", "t") == "oops\n"
	})
	a.shows([]string{"alloc/", "t/"}, "alloc", "fs", id)
	if out := a.Must("alloc", "fs", "-tail", "-n", "1", id, "alloc/logs/t.stdout.0"); out != "said-one\n" {
		t.Errorf("the last line is %q", out)
	}
	a.fails(7, "from-inside", "alloc", "exec", id[:8], "sh", "-c", "echo from-inside; exit 7")
	if out, code := a.CLI("alloc", "exec", id[:8], "no-such-command"); code != 1 || strings.Count(out, `there is no executable file "no-such-command"`) != 1 || strings.Contains(out, "ended the command's connection") {
		t.Errorf("a command that is not there: code %d\n%s", code, out)
	}
	a.fails(3, "greetings", "job", "action", "-job", "web", "greet")
	a.shows(nil, "alloc", "signal", "-s", "SIGCONT", id)

	a.shows([]string{"successful"}, "job", "run", "-var", "word=two", file)
	a.shows([]string{"Version     = 1", `Env[WORD]: "one" => "two"`}, "job", "history", "-p", "web")
	a.shows([]string{`variable "word"`, "-var word=two"}, "job", "inspect", "-hcl", "-with-vars", "web")
	a.shows([]string{"tagged"}, "job", "tag", "apply", "-version", "0", "-name", "first", "web")
	a.shows([]string{"successful"}, "job", "revert", "web", "first")
	a.shows([]string{"successful"}, "job", "scale", "web", "2")
	a.Await("web", model.AllocClientStatusRunning, 2)
	a.shows([]string{"restarted", "finished"}, "job", "restart", "-batch-size", "50%", "-on-error", "fail", "web")
	a.shows([]string{"finished"}, "job", "restart", "-reschedule", "-on-error", "fail", "web")
	a.fails(1, "matches several", "alloc", "status", commonPrefix(a))
	a.fails(1, `no job(s) with prefix or ID "nothing" found`, "job", "status", "nothing")
	a.shows([]string{"finished"}, "job", "stop", "web")
	a.shows([]string{"successful"}, "job", "start", "web")
	a.shows(nil, "job", "stop", "-purge", "-detach", "web")
}

func TestExecOnARealTerminal(t *testing.T) {
	a := newAgent(t).start()
	a.Run(harness.Shell("web", "service", 1, "", "exec sleep 600"))
	id := a.Await("web", model.AllocClientStatusRunning, 1)[0].ID
	cmd := a.Command(a.patient(), "alloc", "exec", id, "/bin/sh")
	cmd.Env = append(cmd.Env, "PS1=ready> ")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 33, Cols: 99})
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	shown := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(tty) // returns an error when the command ends
		shown <- string(b)
	}()
	// The terminal buffers typed input until the task's shell reads it. The size may be
	// set after the shell has started.
	if _, err := tty.WriteString("test -t 0 && echo on-a-$((1+1))-terminal\runtil stty size | grep '33 99'; do sleep 0.1; done\rexit 9\r"); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the exit code is checked separately
	out := <-shown
	if code := cmd.ProcessState.ExitCode(); code != 9 || !strings.Contains(out, "on-a-2-terminal") || !strings.Contains(out, "33 99") {
		t.Errorf("exit code %d, shows:\n%s", code, out)
	}
}

// commonPrefix runs a job with so many allocs that two ids share a prefix, and
// returns the prefix.
func commonPrefix(a *agent) string {
	a.T.Helper()
	a.Run(harness.Shell("many", "batch", 60, "", "true"))
	var ids []string
	a.Eventually(20*time.Second, "60 allocs", func() bool {
		ids = ids[:0]
		for _, x := range a.Allocs("many", "") {
			ids = append(ids, x.ID[:2])
		}
		return len(ids) == 60
	})
	slices.Sort(ids)
	for i := range ids[1:] {
		if ids[i] == ids[i+1] {
			return ids[i]
		}
	}
	a.T.Skip("60 random ids all differ in their first two digits")
	return ""
}

func TestCLIOfTheCluster(t *testing.T) {
	a := newAgent(t)
	a.Configure("telemetry { prometheus_metrics = true }\n")
	a.start()
	a.shows([]string{"ready", "eligible"}, "node", "status")
	a.shows([]string{"raw_exec", "Node registered", "cpu.arch"}, "node", "status", "-self", "-verbose", "-stats")
	a.shows([]string{"ineligible"}, "node", "eligibility", "-disable", "-self")
	a.shows([]string{"drain strategy set", "complete"}, "node", "drain", "-enable", "-self", "-yes")
	a.shows([]string{"unset"}, "node", "drain", "-disable", "-self", "-yes")
	a.shows([]string{"node1"}, "node", "pool", "init", filepath.Join(a.Dir, "node1.hcl"))
	a.shows([]string{"Successfully applied"}, "node", "pool", "apply", filepath.Join(a.Dir, "node1.hcl"))
	a.shows([]string{"owner", "sre"}, "node", "pool", "info", "exa")
	a.shows([]string{"Successfully deleted"}, "node", "pool", "delete", "example")
	a.shows([]string{"Successfully applied"}, "namespace", "apply", "-description", "for tests", "dev")
	a.shows([]string{"for tests"}, "namespace", "status", "dev")
	a.shows([]string{"Successfully deleted"}, "namespace", "delete", "dev")
	a.shows([]string{"alive", "true"}, "server", "members")
	a.shows([]string{"leader"}, "operator", "raft", "list-peers")
	a.shows([]string{"Healthy"}, "operator", "autopilot", "health")
	a.shows([]string{"updated"}, "operator", "scheduler", "set-config", "-scheduler-algorithm", "spread")
	a.shows([]string{"spread"}, "operator", "scheduler", "get-config")
	a.shows([]string{"127.0.0.1"}, "operator", "api", "/v1/status/leader")
	a.fails(1, "404", "operator", "api", "/v1/nothing")
	a.shows([]string{"nomad_"}, "operator", "metrics", "-format", "prometheus")
	a.shows([]string{"broker"}, "agent-info")
	a.shows(nil, "system", "gc")
	a.shows(nil, "system", "reconcile", "summaries")
	a.shows([]string{"Configuration is valid"}, "config", "validate", filepath.Join(a.Dir, "agent.hcl"))
	a.fails(1, "no web UI yet", "ui", "-show-url")
	a.fails(1, "is it running", "node", "status", "-address", "http://127.0.0.1:1")
	a.fails(127, "drover -help", "nonsense")
	a.fails(1, "Subcommands", "node", "pool")
	if out, code := a.CLI("node", "status", "-quiet", "-verbose"); code != 0 || !regexp.MustCompile(`^[0-9a-f-]{36}\n$`).MatchString(out) {
		t.Errorf("-quiet prints %q", out)
	}
	var nodes []struct{ ID string }
	if err := json.Unmarshal([]byte(a.Must("node", "status", "-json")), &nodes); err != nil || len(nodes) != 1 {
		t.Errorf("-json: %v, %v", nodes, err)
	}
}

func TestCLIOfVariablesKeysAndSnapshots(t *testing.T) {
	a := newAgent(t).start()
	a.shows([]string{`"x": "1"`}, "var", "put", "app/db", "x=1", "y=2")
	a.fails(1, "with -check-index, or use -force", "var", "put", "app/db", "x=2")
	file := a.Write("db.nv.hcl", 0o600, a.Must("var", "get", "-out", "hcl", "app/db"))
	a.shows([]string{`"z": "3"`}, "var", "put", "@"+file, "z=3")
	a.shows([]string{"app/db"}, "var", "list", "app/")
	if out := a.Must("var", "get", "-item", "y", "app/db"); out != "2\n" {
		t.Errorf("-item prints %q", out)
	}
	a.fails(5, "holding app/lock", "var", "lock", "-ttl", "10s", "app/lock", "echo holding $DROVER_LOCK_PATH; exit 5")
	a.shows([]string{"active"}, "operator", "root", "keyring", "rotate")
	a.shows([]string{"inactive"}, "operator", "root", "keyring", "list")
	snap := filepath.Join(a.Dir, "state.snap")
	a.shows([]string{snap}, "operator", "snapshot", "save", snap)
	a.shows([]string{"Index"}, "operator", "snapshot", "inspect", snap)
	a.shows([]string{"default"}, "operator", "snapshot", "state", snap)
	a.shows([]string{"purged"}, "var", "purge", "app/db")
	a.fails(1, "no variable", "var", "get", "app/db")
	a.shows([]string{"Restored"}, "operator", "snapshot", "restore", snap)
	a.shows([]string{"3"}, "var", "get", "-item", "z", "app/db")
	a.shows(nil, "node", "meta", "apply", "rack=r1")
	a.shows([]string{"rack = r1"}, "node", "meta", "read")
	a.fails(1, "has to be stopped first", "operator", "raft", "info", a.Data)
	a.Kill()
	a.shows([]string{"Last Index"}, "operator", "raft", "info", a.Data)
	a.shows([]string{"RegisterNode", "PutVariable"}, "operator", "raft", "logs", a.Data)
	a.shows([]string{`"Name": "default"`}, "operator", "raft", "state", a.Data)
	a.shows([]string{"["}, "operator", "client-state", a.Data)
}

func TestEveryBuiltInExampleRuns(t *testing.T) {
	a := newAgent(t).start()
	for _, name := range strings.Fields(a.Must("job", "init", "-list-templates")) {
		file := filepath.Join(a.Dir, name+".nomad.hcl")
		a.shows([]string{file}, "job", "init", "-template", name, file)
		if out := a.Must("fmt", "-check", file); out != "" {
			t.Errorf("%s is not in canonical layout", name)
		}
		a.Must("job", "run", "-detach", file)
		switch name {
		case "periodic":
			a.shows([]string{"successful"}, "job", "periodic", "force", "example")
			a.instance("example/periodic-")
		case "parameterized":
			a.Must("job", "dispatch", "-meta", "name=one", "example", file)
			a.instance("example/dispatch-")
		case "batch":
			a.Await("example", model.AllocClientStatusComplete, 3)
		default:
			a.Await("example", model.AllocClientStatusRunning, 1)
		}
		a.Must("job", "stop", "-purge", "-detach", "example")
	}
	a.fails(1, "already exists", "job", "init", filepath.Join(a.Dir, "full.nomad.hcl"))
}

// instance waits until a child of a job has completed.
func (a *agent) instance(prefix string) {
	a.T.Helper()
	a.Eventually(20*time.Second, "an instance "+prefix+" has completed", func() bool {
		jobs, _, err := a.Jobs(a.Context(), nil)
		if err != nil {
			return false
		}
		for _, j := range jobs {
			if strings.HasPrefix(j.ID, prefix) && len(a.Allocs(j.ID, model.AllocClientStatusComplete)) == 1 {
				return true
			}
		}
		return false
	})
}

func TestBashCompletesCommandsOptionsAndIDs(t *testing.T) {
	a := newAgent(t).start()
	a.Run(harness.Shell("web-1", "service", 1, "", "exec sleep 600"))
	a.Run(harness.Shell("web-2", "service", 1, "", "exec sleep 600"))
	node := strings.TrimSpace(a.Must("node", "status", "-quiet", "-verbose"))
	for line, want := range map[string]string{
		"drover deploy":                       "deployment",
		"drover job per":                      "periodic",
		"drover job periodic ":                "force",
		"drover job run -preserve-":           "-preserve-counts -preserve-resources",
		"drover job status we":                "web-1 web-2",
		"drover job status -verbose web-1":    "web-1",
		"drover job eval -force-reschedule w": "web-1 web-2",
		"drover node status " + node[:4]:      node,
		"drover completion ":                  "bash fish zsh",
		"drover alloc-st":                     "",
		"drover operator root keyring rot":    "rotate",
		"drover job scaling-events -addr":     "-address",
	} {
		script := `source <(drover completion bash); COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _drover; printf '%s\n' "${COMPREPLY[@]}" | sort | xargs`
		if got := a.script("bash", script, strings.Split(line, " ")...); got != want {
			t.Errorf("after %q bash proposes %q, want %q", line, got, want)
		}
	}
	a.script("bash", "touch ~/.bashrc; drover -autocomplete-install && bash --norc -c 'source ~/.bashrc; complete -p drover' && drover -autocomplete-uninstall && ! grep -q drover ~/.bashrc")
}

func TestOtherShellsComplete(t *testing.T) {
	a := newAgent(t).start()
	a.Run(harness.Shell("web-1", "service", 1, "", "exec sleep 600"))
	for name, script := range map[string]string{
		"zsh":  `autoload -U compinit; compinit -u -d ~/zc; source <(drover completion zsh); compadd() { shift; print -l -- "$@" }; words=(drover job status we); CURRENT=4; _drover`,
		"fish": `drover completion fish | source; complete -C "drover job status we"`,
	} {
		if _, err := exec.LookPath(name); err != nil {
			t.Logf("%s is not installed", name)
			continue
		}
		if got := a.script(name, script); got != "web-1" {
			t.Errorf("%s proposes %q", name, got)
		}
	}
}

func TestFollowingEndsWithTheInterrupt(t *testing.T) {
	a := newAgent(t).start()
	a.Run(harness.Shell("web", "service", 1, "", "echo first; while :; do sleep 0.2; echo more; done"))
	id := a.Await("web", model.AllocClientStatusRunning, 1)[0].ID
	for _, args := range [][]string{
		{"alloc", "logs", "-f", id}, {"alloc", "logs", "-f", "-tail", "-n", "1", "-job", "web"}, {"alloc", "fs", "-f", id, "alloc/logs/t.stdout.0"},
	} {
		cmd := a.Command(a.patient(), args...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		seen := ""
		for buf := make([]byte, 1024); strings.Count(seen, "more\n") < 3; {
			n, err := out.Read(buf)
			if seen += string(buf[:n]); err != nil {
				t.Fatalf("%v ends after %q: %v", args, seen, err)
			}
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestOperatorDebugMakesAnArchive(t *testing.T) {
	a := newAgent(t).start()
	a.Run(strings.Replace(harness.Shell("web", "service", 1, "", "exec sleep 600"), "driver ", "env {\n        DB = \"postgres://me:hunter2@db\"\n      }\n      driver ", 1))
	out := a.script("bash", "cd ~ && drover operator debug -duration 6s -interval 1s -pprof-duration 1s -event-index 1 && tar -xzf drover-debug-*.tar.gz && cd drover-debug-*Z && find . -type f -size +0 | sort; "+
		`grep -q '"DB":"<redacted>' cluster/eventstream.json && echo job seen; grep -rl hunter2 . | sed s/^/leak:/`)
	if strings.Contains(out, "leak:") || !strings.Contains(out, "job seen") {
		t.Errorf("the archive shows a secret, or not the job: %s", out)
	}
	for _, want := range []string{"./index.json", "./cluster/agent-self.json", "./cluster/raft-configuration.json", "./interval/0000/jobs.json", "./interval/0001/nodes.json", "./interval/0000/metrics.json"} {
		if !strings.Contains(out, want+"\n") && !strings.HasSuffix(out, want) {
			t.Errorf("the archive lacks %s:\n%s", want, out)
		}
	}
}
