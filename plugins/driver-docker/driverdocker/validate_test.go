// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"maps"
	"slices"
	"strings"
	"testing"

	driver "github.com/drover-project/drover/sdk/driver/v1"
)

// judge returns what the driver finds in a task's config, of which image may be missing.
func judge(t *testing.T, agent, task map[string]any) []driver.Diagnostic {
	t.Helper()
	a, err := parseAgentConfig(applied(t, agentSchema(), agent))
	if err != nil {
		t.Fatal(err)
	}
	d := &Driver{config: a, current: &daemon{}}
	block := map[string]any{"image": "web:1"}
	maps.Copy(block, task)
	body := applied(t, taskSchema(), block)
	found, err := d.ValidateTask(t.Context(), &driver.TaskDraft{DriverConfig: body})
	if err != nil {
		t.Fatal(err)
	}
	again, err := d.ValidateTask(t.Context(), &driver.TaskDraft{DriverConfig: body})
	if err != nil || !slices.Equal(found, again) {
		t.Errorf("%+v, then %+v, %v", found, again, err)
	}
	return found
}

func TestTheRulesOfAConfigNameTheAttribute(t *testing.T) {
	type config = map[string]any
	for _, c := range []struct {
		task config
		want string // paths of the errors
	}{
		{config{}, ""},
		{everything, ""},
		{config{"image": ""}, "config.image"},
		{config{"image": "Web:1:2"}, "config.image"},
		{config{"image_pull_timeout": "soon"}, "config.image_pull_timeout"},
		{config{"labels": config{"io.drover.x": "y"}}, "config.labels"},
		{config{"privileged": true, "cap_add": []any{"sys_admin"}, "security_opt": []any{"seccomp=unconfined"}, "runtime": "evil"}, "config.privileged config.cap_add config.security_opt config.runtime"},
		{config{"cap_drop": []any{"no_such"}}, "config.cap_drop"},
		{config{"shm_size": -1}, "config.shm_size"},
		{config{"pids_limit": 500, "oom_score_adj": 5000, "ulimit": config{"nofile": "many", "zzz": "1"}}, "config.pids_limit config.oom_score_adj config.ulimit"},
		{config{"cpu_hard_limit": true, "cpu_cfs_period": 5}, "config.cpu_cfs_period"},
		{config{"pid_mode": "host"}, "config.pid_mode"},
		{config{"devices": []any{config{"host_path": "/dev/sda"}}}, "config.devices"},
		{config{"network_mode": "container:"}, "config.network_mode"},
		{config{"network_aliases": []any{"a"}}, "config.network_mode"},
		{config{"network_mode": "own", "ipv4_address": "::1"}, "config.ipv4_address"},
		{config{"network_mode": "own", "mac_address": "aa"}, "config.mac_address"},
		{config{"dns_servers": []any{"ns1"}}, "config.dns_servers"},
		{config{"port_map": config{"http": 99999}}, "config.port_map"},
		{config{"ports": []any{"no_port_of_this_draft"}}, ""}, // the start knows
		{config{"volumes": []any{"local/a:/a", "nonsense", "/secrets/x:/x"}}, "config.volumes[1] config.volumes[2]"},
		{config{"volume_driver": "x"}, "config.volume_driver"},
		{config{"mount": []any{
			config{"type": "bind", "source": "local/a", "target": "/a"}, config{"type": "tmpfs", "source": "x", "target": "/b"},
			config{"type": "volume", "source": "a/b", "target": "/c"}, config{"type": "odd", "target": "/d"}, config{"type": "tmpfs"},
		}}, "config.mount[1] config.mount[2] config.mount[3] config.mount[4]"},
		{config{"mount": []any{config{"type": "bind", "source": "local", "target": "data"}}}, "config.mount[0]"},
		{config{"volumes": []any{"local:/a", "local:/b/"}, "mounts": []any{config{"target": "/b"}}}, "config.mount"},
		{config{"volumes": []any{"local:/local"}}, "config.volumes"},
		{config{"extra_hosts": []any{"a:1.2.3.4", "b:::1", "c:[::1]", "d:host-gateway", "e:bar"}}, "config.extra_hosts"},
	} {
		var paths []string
		for _, f := range judge(t, map[string]any{"pids_limit": 100}, c.task) {
			if f.Severity == driver.SeverityError {
				paths = append(paths, f.Path)
			}
			if f.Summary == "" || strings.HasPrefix(f.Summary, "config") {
				t.Errorf("%v: %+v", c.task, f)
			}
		}
		if got := strings.Join(paths, " "); got != c.want {
			t.Errorf("%v: %s, want %s", c.task, got, c.want)
		}
	}
}

func TestWhatTheRulesRefuseTheStartRefusesToo(t *testing.T) {
	type config = map[string]any
	for _, task := range []config{
		{"privileged": true}, {"cap_add": []any{"sys_admin"}}, {"cap_drop": []any{"no_such"}}, {"shm_size": -1}, {"oom_score_adj": 5000}, {"pid_mode": "host"},
		{"devices": []any{config{"host_path": "/dev/sda"}}}, {"network_aliases": []any{"a"}}, {"volumes": []any{"nonsense"}}, {"volume_driver": "x"},
		{"mount": []any{config{"type": "odd", "target": "/d"}}}, {"port_map": config{"http": 99999}}, {"ulimit": config{"zzz": "1"}}, {"dns_servers": []any{"ns1"}},
	} {
		found := judge(t, nil, task)
		_, err := buildSpec(input(t, nil, task))
		if len(found) != 1 || err == nil || !strings.Contains(err.Error(), found[0].Summary) {
			t.Errorf("%v: the rules find %+v, the start says %v", task, found, err)
		}
	}
}

func TestWhatHasNoEffectBesideSomethingElseIsAWarning(t *testing.T) {
	type config = map[string]any
	everywhere := config{"allow_privileged": true, "volumes": config{"enabled": true}}
	for path, task := range map[string]config{
		"config.cap_drop":                {"privileged": true, "cap_drop": []any{"all"}},
		"config.hostname":                {"hostname": "a", "network_mode": "container:b"},
		"config.cpu_cfs_period":          {"cpu_cfs_period": 50000},
		"config.volume_driver":           {"volume_driver": "nfs", "volumes": []any{"local/a:/a"}},
		"config.mount[0].bind_options":   {"mount": config{"type": "tmpfs", "target": "/a", "bind_options": config{"propagation": "private"}}},
		"config.mounts[0].tmpfs_options": {"mounts": config{"type": "bind", "source": "local", "target": "/a", "tmpfs_options": config{"size": 1}}},
		"config.mount[0].volume_options": {"mount": config{"type": "bind", "source": "local", "target": "/a", "volume_options": config{"no_copy": true}}},
	} {
		if found := judge(t, everywhere, task); len(found) != 1 || found[0].Path != path || found[0].Severity != driver.SeverityWarning {
			t.Errorf("%v: %+v", task, found)
		}
	}
	for _, task := range []config{
		{"cpu_cfs_period": 50000, "cpu_hard_limit": true},
		{"hostname": "a", "network_mode": "host"},
		{"volume_driver": "nfs", "volumes": []any{"data:/a"}},
	} {
		if found := judge(t, everywhere, task); len(found) > 0 {
			t.Errorf("%v: %+v", task, found)
		}
	}
	if found := judge(t, everywhere, config{"uts_mode": "host", "hostname": "a"}); len(found) != 1 || found[0].Path != "config.hostname" {
		t.Errorf("a name of its own in the machine's namespace: %+v", found)
	}
}

func TestWhatOnlyTheStartKnowsIsAWarning(t *testing.T) {
	type config = map[string]any
	for path, task := range map[string]config{
		"config.volumes[0]": {"volumes": []any{"/srv/data:/data"}}, // may be a path of the alloc
		"config.mount[0]":   {"mount": []any{config{"type": "bind", "source": "/srv/data", "target": "/data"}}},
		"config.port_map":   {"network_mode": "host", "port_map": config{"http": 80}},
		"config.ports":      {"network_mode": "none", "ports": []any{"http"}},
	} {
		if found := judge(t, nil, task); len(found) != 1 || found[0].Path != path || found[0].Severity != driver.SeverityWarning {
			t.Errorf("%v: %+v", task, found)
		}
	}
	if found := judge(t, config{"volumes": config{"enabled": true}}, config{"volumes": []any{"/srv/data:/data"}}); len(found) > 0 {
		t.Errorf("what the operator allows: %+v", found)
	}
}
