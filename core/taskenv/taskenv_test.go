// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package taskenv_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/taskenv"
)

func input() taskenv.Input {
	task := &model.Task{Name: "web", Meta: map[string]string{"team": "task"}, Env: map[string]string{
		"URL": "http://${NOMAD_ADDR_http-api}", "WHERE": "${node.datacenter}/${meta.rack}/${attr.kernel.name}/${env[\"HOME\"]}",
		"ODD": "${nothing.known} $HOME ${}", "NOMAD_DC": "mine",
	}}
	job := &model.Job{ID: "shop", Name: "Shop", Namespace: "default", ParentID: "p", Meta: map[string]string{"team": "job", "a-b": "1"},
		TaskGroups: []*model.TaskGroup{{Name: "app", Meta: map[string]string{"team": "group"}, Tasks: []*model.Task{task}}}}
	return taskenv.Input{
		Node: &model.Node{ID: "n1", Name: "host", Datacenter: "dc1", Attributes: map[string]string{"kernel.name": "linux"}, Meta: map[string]string{"rack": "r7"}},
		Alloc: &model.Allocation{ID: "b89c29dd-0ec7-7ff8-eda4-2dd0e26691da", Name: "shop.app[3]", TaskGroup: "app", Namespace: "default", Job: job,
			AllocatedResources: &model.AllocatedResources{
				Tasks: map[string]*model.AllocatedTaskResources{"web": {Cpu: model.AllocatedCpuResources{CpuShares: 50, ReservedCores: []uint16{3, 0, 1, 2, 5}},
					Memory: model.AllocatedMemoryResources{MemoryMB: 64, MemoryMaxMB: 128}}},
				Shared: model.AllocatedSharedResources{Ports: []model.AllocatedPortMapping{{Label: "http-api", Value: 28081, To: 80, HostIP: "10.0.0.1"}, {Label: "v6", Value: 1, HostIP: "::1"}}},
			}},
		Task: task, Region: "global", AllocDir: "/a/alloc", TaskDir: "/a/web/local", SecretsDir: "/a/web/secrets",
		HostEnv: []string{"HOME=/root", "VAULT_TOKEN=x", "EMPTY=", "=bad"},
	}
}

func TestATaskSeesTheVariablesOfTheReference(t *testing.T) {
	want := map[string]string{
		"HOME": "/root", "EMPTY": "",
		"NOMAD_ALLOC_ID": "b89c29dd-0ec7-7ff8-eda4-2dd0e26691da", "NOMAD_SHORT_ALLOC_ID": "b89c29dd",
		"NOMAD_ALLOC_NAME": "shop.app[3]", "NOMAD_ALLOC_INDEX": "3", "NOMAD_TASK_NAME": "web", "NOMAD_GROUP_NAME": "app",
		"NOMAD_JOB_ID": "shop", "NOMAD_JOB_NAME": "Shop", "NOMAD_JOB_PARENT_ID": "p", "NOMAD_NAMESPACE": "default", "NOMAD_REGION": "global",
		"NOMAD_ALLOC_DIR": "/a/alloc", "NOMAD_TASK_DIR": "/a/web/local", "NOMAD_SECRETS_DIR": "/a/web/secrets",
		"NOMAD_CPU_LIMIT": "50", "NOMAD_CPU_CORES": "0-3,5", "NOMAD_MEMORY_LIMIT": "64", "NOMAD_MEMORY_MAX_LIMIT": "128",
		"NOMAD_IP_http_api": "10.0.0.1", "NOMAD_PORT_http_api": "80", "NOMAD_ADDR_http_api": "10.0.0.1:28081",
		"NOMAD_HOST_IP_http_api": "10.0.0.1", "NOMAD_HOST_PORT_http_api": "28081", "NOMAD_HOST_ADDR_http_api": "10.0.0.1:28081", "NOMAD_ALLOC_PORT_http_api": "80",
		"NOMAD_IP_v6": "::1", "NOMAD_PORT_v6": "1", "NOMAD_ADDR_v6": "[::1]:1", "NOMAD_HOST_IP_v6": "::1", "NOMAD_HOST_PORT_v6": "1", "NOMAD_HOST_ADDR_v6": "[::1]:1", "NOMAD_ALLOC_PORT_v6": "1",
		"NOMAD_META_team": "task", "NOMAD_META_TEAM": "task", "NOMAD_META_a_b": "1", "NOMAD_META_A_B": "1",
		"URL": "http://${NOMAD_ADDR_http-api}", "WHERE": "dc1/r7/linux//root", "ODD": "${nothing.known} $HOME ${}", "NOMAD_DC": "mine",
	}
	got := taskenv.Build(input()).Map()
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s = %q, want %q", k, got[k], v)
		}
	}
	for k, v := range got {
		if _, ok := want[k]; !ok {
			t.Errorf("unexpected %s=%q", k, v)
		}
	}
}

func TestMetaIsReplacedLikeTheEnvironment(t *testing.T) {
	in := input()
	in.Alloc.Job.Meta = map[string]string{"where": "${node.datacenter}-${attr.kernel.name}", "team": "${node.class}"}
	in.Alloc.Job.TaskGroups[0].Meta = map[string]string{"rack": "${meta.rack} of ${NOMAD_ALLOC_INDEX}", "odd": "${nothing.known} ${NOMAD_META_rack}"}
	in.Task.Meta = map[string]string{"home": "${env[\"HOME\"]}", "team": "${NOMAD_TASK_NAME}"}
	in.Task.Env = map[string]string{"FROM": "${NOMAD_META_where}"}
	in.Secret = map[string]string{"TOKEN": "secret"}
	got := taskenv.Build(in).Map()
	for k, want := range map[string]string{
		"NOMAD_META_where": "dc1-linux", "NOMAD_META_WHERE": "dc1-linux", "NOMAD_META_rack": "r7 of 3", "NOMAD_META_home": "/root",
		"NOMAD_META_team": "web", "NOMAD_META_odd": "${nothing.known} ${NOMAD_META_rack}", "FROM": "dc1-linux",
	} {
		if got[k] != want {
			t.Errorf("%s = %q, want %q", k, got[k], want)
		}
	}
}

func TestTheOperatorsListOfWhatIsNotInheritedReplacesTheDefault(t *testing.T) {
	in := input()
	in.HostDenylist = []string{"HOME"}
	env := taskenv.Build(in).Map()
	if _, ok := env["HOME"]; ok || env["VAULT_TOKEN"] != "x" {
		t.Errorf("HOME is inherited: %t; VAULT_TOKEN %q", ok, env["VAULT_TOKEN"])
	}
}

func TestReplacingReachesEveryStringOfAConfig(t *testing.T) {
	e := taskenv.Build(input())
	got := e.ReplaceAny(map[string]any{
		"args": []any{"-p", "${NOMAD_PORT_v6}", 3, true}, "${NOMAD_TASK_NAME}": map[string]any{"x": "${meta[\"rack\"]}-${env.HOME}"},
		"list": []string{"${node.unique.name}"},
	})
	want := map[string]any{
		"args": []any{"-p", "1", 3, true}, "web": map[string]any{"x": "r7-/root"}, "list": []string{"host"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestWhatIsPutInIsNotReplacedAgain(t *testing.T) {
	in := input()
	in.HostEnv = []string{"A=${B}", "B=secret"}
	if got := taskenv.Build(in).Replace("${A}"); got != "${B}" {
		t.Errorf("got %q", got)
	}
}

func TestSecretsAreApartFromTheEnvironmentAndWinOverIt(t *testing.T) {
	in := input()
	in.Task.Env = map[string]string{"TOKEN": "plain", "KEPT": "x"}
	in.Secret = map[string]string{"TOKEN": "secret"}
	env := taskenv.Build(in)
	if got, has := env.Map()["TOKEN"]; has || env.Map()["KEPT"] != "x" || env.Secrets()["TOKEN"] != "secret" {
		t.Errorf("TOKEN = %q in the environment, secrets %v", got, env.Secrets())
	}
	if got := env.Replace("${TOKEN} ${env.TOKEN} ${env[\"TOKEN\"]}"); got != "secret secret secret" {
		t.Errorf("replaced by %q", got)
	}
	if env.All()["TOKEN"] != "secret" || !slices.Contains(env.List(), "TOKEN=secret") || slices.Contains(env.List(), "TOKEN=plain") {
		t.Errorf("All %q, List %q", env.All()["TOKEN"], env.List())
	}
}
