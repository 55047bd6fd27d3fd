// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverschema_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/driverschema"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/schema"
)

func decodeMap(data []byte) map[string]any {
	var m map[string]any
	if json.Unmarshal(data, &m) != nil {
		return nil
	}
	return m
}

func job(tasks ...*model.Task) *model.Job {
	return &model.Job{ID: "j", Datacenters: []string{"eu-*"}, NodePool: "default", TaskGroups: []*model.TaskGroup{{Name: "web", Tasks: tasks}}}
}

func task(config map[string]any) *model.Task {
	return &model.Task{Name: "server", Driver: "shell", Config: config}
}

func lines(findings []driverschema.Finding) []string {
	var out []string
	for _, f := range findings {
		out = append(out, f.String())
	}
	return out
}

func with(bodies ...*driverschema.Body) func(string) driverschema.Found {
	return func(string) driverschema.Found { return driverschema.Found{Bodies: bodies} }
}

func same(t *testing.T, got []driverschema.Finding, want ...string) {
	t.Helper()
	if !slices.Equal(lines(got), want) {
		t.Errorf("got  %q\nwant %q", lines(got), want)
	}
}

func TestEveryProblemIsNamedWithItsTaskAndTheDriversOwnWords(t *testing.T) {
	r := driverschema.Check(job(task(map[string]any{"comand": "x", "args": "y"})), with(shell()))
	same(t, r.Problems,
		`task group "web" -> task "server" -> config.command: required (program to run)`,
		`task group "web" -> task "server" -> config.args: must be a list, is "y" (its arguments)`,
		`task group "web" -> task "server" -> config.comand: unknown attribute; did you mean "command"?`)
	same(t, r.Warnings)
}

func TestAConfigIsRightIfOneVersionOfTheDriverAcceptsIt(t *testing.T) {
	older, newer := shell(), shell()
	newer.Task.Attributes = append(newer.Task.Attributes, attr("shell", schema.String, true, "which one"))
	if r := driverschema.Check(job(task(map[string]any{"command": "x"})), with(newer, older)); len(r.Problems) > 0 {
		t.Fatalf("problems %q", lines(r.Problems))
	}
	r := driverschema.Check(job(task(map[string]any{"command": "x", "shel": "y"})), with(newer, older))
	same(t, r.Problems,
		`task group "web" -> task "server" -> config.shell: required (which one)`,
		`task group "web" -> task "server" -> config.shel: unknown attribute; did you mean "shell"?`)
}

func TestADriverOfWhichNothingIsKnownIsNotChecked(t *testing.T) {
	r := driverschema.Check(job(task(map[string]any{"anything": 1})), with())
	if len(r.Problems)+len(r.Warnings) > 0 {
		t.Fatalf("%+v", r)
	}
	r = driverschema.Check(job(task(nil)), func(string) driverschema.Found { return driverschema.Found{Absent: true} })
	same(t, r.Problems)
	same(t, r.Warnings, `task group "web" -> task "server" -> driver: no node of the cluster offers driver "shell"`)
}

func TestTheBodiesAreThoseOfTheNodesThatTheJobMayRunOn(t *testing.T) {
	known := func(name string, created uint64, uses ...model.DriverUse) driverschema.Known {
		b := shell()
		b.Capabilities.Ignores = []string{name} // to tell them apart
		return driverschema.Known{Body: b, CreateIndex: created, Uses: uses}
	}
	near := known("near", 1, model.DriverUse{Datacenter: "eu-1", NodePool: "default"})
	newer := known("newer", 3, model.DriverUse{Datacenter: "eu-2", NodePool: "default"})
	pool := known("pool", 4, model.DriverUse{Datacenter: "eu-1", NodePool: "gpu"})
	far := known("far", 5, model.DriverUse{Datacenter: "us-1", NodePool: "default"})
	gone := known("gone", 6)
	for _, c := range []struct {
		what string
		all  []driverschema.Known
		pool string
		want []string
	}{
		{"near", []driverschema.Known{near, newer, pool, far, gone}, "default", []string{"newer", "near"}},
		{"all pools", []driverschema.Known{near, pool, far, gone}, "all", []string{"pool", "near"}},
		{"elsewhere", []driverschema.Known{gone, far, pool}, "default", []string{"far", "pool"}},
		{"remembered", []driverschema.Known{gone}, "default", []string{"gone"}},
		{"unknown", nil, "default", nil},
	} {
		j := job()
		j.NodePool = c.pool
		var got []string
		for _, b := range driverschema.Choose(c.all, j) {
			got = append(got, b.Capabilities.Ignores[0])
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

func TestWhatTheDriverWillNotActOnIsSaid(t *testing.T) {
	everything := func() *model.Job {
		tk := task(map[string]any{"command": "x"})
		tk.User, tk.KillSignal = "nobody", "SIGHUP"
		tk.Resources = &model.Resources{Cores: 2, MemoryMaxMB: 100, Devices: []*model.RequestedDevice{{Name: "gpu"}}}
		tk.VolumeMounts = []*model.VolumeMount{{Volume: "v", SELinuxLabel: "z"}}
		tk.Templates = []*model.Template{{ChangeMode: "restart"}, {ChangeMode: "signal"}, {ChangeMode: "script"}}
		tk.Actions = []*model.Action{{Name: "a"}}
		tk.LogConfig = &model.LogConfig{MaxFiles: 3, MaxFileSizeMB: 10}
		tk.Services = []*model.Service{{Checks: []*model.ServiceCheck{{Type: "tcp"}, {Type: "script"}}}}
		j := job(tk)
		j.TaskGroups[0].Networks = []*model.NetworkResource{{Mode: "bridge", DNS: &model.DNSConfig{Servers: []string{"10.0.0.1"}}}}
		j.TaskGroups[0].Services = []*model.Service{{Checks: []*model.ServiceCheck{{Type: "script", TaskName: "server"}, {Type: "script", TaskName: "other"}}}}
		return j
	}
	able := shell()
	able.Capabilities = driverschema.Capabilities{SendSignals: true, Exec: true, MountConfigs: true, NetworkModes: []string{"host", "group"}}
	same(t, driverschema.Check(everything(), with(able)).Warnings)

	unable := shell()
	unable.Capabilities = driverschema.Capabilities{DisableLogCollection: true, NetworkModes: []string{"host"},
		Ignores: []string{"user", "kill_signal", "resources.cores", "resources.memory_max", "resources.device", "network.dns", "volume_mount.selinux_label", "a word of tomorrow"}}
	const at, group = `task group "web" -> task "server" -> `, `task group "web" -> `
	same(t, driverschema.Check(everything(), with(unable)).Warnings,
		at+`user: driver "shell" does not act on it`,
		at+`kill_signal: driver "shell" does not act on it`,
		at+`resources.cores: driver "shell" does not act on it`,
		at+`resources.memory_max: driver "shell" does not act on it`,
		at+`resources.device: driver "shell" does not act on it`,
		group+`network[0].dns: task "server": driver "shell" does not act on it`,
		at+`volume_mount[0].selinux_label: driver "shell" does not label volumes: label the volume on its node where SELinux is in use`,
		at+`volume_mount[0]: driver "shell" cannot mount volumes: the task will not start`,
		at+`template[1].change_mode: driver "shell" sends no signals: a change of the template cannot be told to the task`,
		at+`template[2].change_mode: driver "shell" runs no commands in tasks: the script cannot run`,
		at+`action[0]: driver "shell" runs no commands in tasks: the action cannot run`,
		at+`service[0].check[1]: driver "shell" runs no commands in tasks: the check cannot run`,
		group+`service[0].check[0]: driver "shell" runs no commands in tasks: the check cannot run`,
		at+`logs: driver "shell" keeps no logs of its tasks: the block is ignored`)
	same(t, driverschema.Check(everything(), with(unable)).Problems,
		group+`network[0].mode: task "server": driver "shell" cannot join a network of mode "bridge": use mode "host", or put the task into a group of its own`)

	plain := job(task(map[string]any{"command": "x"}))
	plain.TaskGroups[0].Tasks[0].LogConfig = &model.LogConfig{MaxFiles: 10, MaxFileSizeMB: 10}
	same(t, driverschema.Check(plain, with(unable)).Warnings)
}

func TestAJobWithoutANetworkIsRefusedWhereNoDriverKeepsItOff(t *testing.T) {
	j := job(task(map[string]any{"command": "x"}))
	j.TaskGroups[0].Networks = []*model.NetworkResource{{Mode: "none"}}
	open := shell()
	open.Capabilities = driverschema.Capabilities{NetworkModes: []string{"host"}}
	same(t, driverschema.Check(j, with(open)).Problems,
		`task group "web" -> network[0].mode: task "server": driver "shell" cannot keep its tasks off the network: mode "none" is not possible with it; use a driver that can, such as exec or docker, or leave it out`)
	for _, mode := range []string{"none", "group"} {
		closed := shell()
		closed.Capabilities = driverschema.Capabilities{NetworkModes: []string{"host", mode}}
		if r := driverschema.Check(j, with(closed)); len(r.Problems) > 0 {
			t.Errorf("a driver that can by mode %q: %v", mode, r.Problems)
		}
	}
}

func TestAJobIsRefusedWhereNoVersionOfItsDriverJoinsTheGroupsNetwork(t *testing.T) {
	for mode, refused := range map[string]map[string]bool{
		"bridge": {"host": true, "host task none": true, "host group": false, "": false},
		"cni/x":  {"host": true, "host task none": true, "host group": false, "": false},
		"none":   {"host": true, "host task none": false, "host group": false, "": true},
		"host":   {"host": false, "": false},
	} {
		j := job(task(map[string]any{"command": "x"}))
		j.TaskGroups[0].Networks = []*model.NetworkResource{{Mode: mode}}
		for modes, want := range refused {
			b := shell()
			b.Capabilities.NetworkModes = strings.Fields(modes)
			if r := driverschema.Check(j, with(b)); (len(r.Problems) > 0) != want {
				t.Errorf("mode %q with a driver of modes %q: %v", mode, modes, r.Problems)
			}
			older := shell()
			older.Capabilities.NetworkModes = []string{"host", "group"}
			if r := driverschema.Check(j, with(b, older)); len(r.Problems) > 0 {
				t.Errorf("mode %q with a driver of modes %q and another version that can: %v", mode, modes, r.Problems)
			}
		}
	}
}

func TestADriverWithRulesIsAskedAboutWhatFitsItsSchema(t *testing.T) {
	decoded := func(validates bool, more ...schema.Attribute) *driverschema.Body {
		b := shell()
		b.Capabilities.Validates = validates
		b.Task.Attributes = append(b.Task.Attributes, more...)
		_, data, err := b.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if b, err = driverschema.Decode(data); err != nil {
			t.Fatal(err)
		}
		return b
	}
	rules, newer, none := decoded(true), decoded(true, attr("dir", schema.String, false, "")), decoded(false, attr("dir", schema.String, false, ""))
	good, mixed := map[string]any{"command": "x"}, map[string]any{"command": "x", "dir": "/"}
	for _, c := range []struct {
		what   string
		config map[string]any
		bodies []*driverschema.Body
		hashes []string
		sure   bool
	}{
		{"no rules", good, []*driverschema.Body{none}, nil, false},
		{"no schema fits", map[string]any{}, []*driverschema.Body{rules}, nil, false},
		{"rules", good, []*driverschema.Body{rules}, []string{rules.Hash()}, true},
		{"two versions with rules", good, []*driverschema.Body{newer, rules}, []string{newer.Hash(), rules.Hash()}, true},
		{"only one of them fits", mixed, []*driverschema.Body{newer, rules}, []string{newer.Hash()}, true},
		{"a version without rules would start it", good, []*driverschema.Body{rules, none}, []string{rules.Hash()}, false},
	} {
		asks := driverschema.Check(job(task(c.config)), with(c.bodies...)).Asks
		if len(c.hashes) == 0 && len(asks) > 0 || len(c.hashes) > 0 && (len(asks) != 1 || !slices.Equal(asks[0].Hashes, c.hashes) || asks[0].Sure != c.sure) {
			t.Errorf("%s: %+v", c.what, asks)
		}
	}
}
