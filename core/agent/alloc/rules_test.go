// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/model"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestATaskInheritsTheAgentsEnvironmentUnlessAnImageBringsOne(t *testing.T) {
	for isolation, inherits := range map[driver.FSIsolation]bool{"none": true, "chroot": true, "image": false} {
		with(t, func(t *testing.T, b *bed) {
			b.driver.isolation = isolation
			b.cfg.HostEnv = []string{"PATH=/bin", "NOMAD_TOKEN=secret", "MINE=secret"}
			b.run(newAlloc(newTask("web")))
			synctest.Wait()
			b.wants("web", "running")
			env := b.driver.configs[0].Env
			_, token := env["NOMAD_TOKEN"]
			_, mine := env["MINE"]
			if (env["PATH"] == "/bin") != inherits || mine != inherits || token {
				t.Errorf("%s: %v", isolation, env)
			}
		})
	}
	with(t, func(t *testing.T, b *bed) {
		b.cfg.HostEnv = []string{"NOMAD_TOKEN=x", "MINE=secret"}
		b.cfg.Rules.EnvDenylist = []string{"MINE"}
		b.run(newAlloc(newTask("web")))
		synctest.Wait()
		env := b.driver.configs[0].Env
		if _, mine := env["MINE"]; mine || env["NOMAD_TOKEN"] != "x" {
			t.Errorf("by the operator's list: %v", env)
		}
	})
}

func TestNoTaskRunsAsAUserWhomTheOperatorDenies(t *testing.T) {
	denied := alloc.Rules{DeniedUsers: []string{"root"}, CheckedDrivers: []string{"fake"}}
	for _, x := range []struct {
		user  string
		rules alloc.Rules
		runs  bool
	}{
		{"root", denied, false},
		{"0", denied, false},
		{"${meta.who}", denied, false},
		{"nobody", denied, true},
		{"", denied, true},
		{"root", alloc.Rules{DeniedUsers: []string{"root"}, CheckedDrivers: []string{"other"}}, true},
		{"nobody", alloc.Rules{DeniedUsers: []string{"nobody"}, CheckedDrivers: []string{"fake"}}, false},
	} {
		with(t, func(t *testing.T, b *bed) {
			b.cfg.Rules = x.rules
			node := *b.cfg.Node()
			node.Meta = map[string]string{"who": "root"}
			b.cfg.Node = func() *model.Node { return &node }
			task := newTask("web")
			task.User = x.user
			b.run(newAlloc(task))
			synctest.Wait()
			if x.runs {
				b.wants("web", "running")
				return
			}
			b.wants("", "failed")
			b.hasEvent("web", `is in the agent's client.options "user.denylist"`)
			if len(b.driver.configs) != 0 {
				t.Errorf("user %q: the driver was asked", x.user)
			}
		})
	}
}

func TestNoTaskStartsWithADriverThatTheOperatorDenies(t *testing.T) {
	for _, x := range []struct {
		rules alloc.Rules
		why   string
	}{
		{alloc.Rules{}, ""},
		{alloc.Rules{AllowedDrivers: []string{"other", "fake"}, DeniedDrivers: []string{"other"}}, ""},
		{alloc.Rules{DeniedDrivers: []string{"other", "fake"}}, `client.options names it in "driver.denylist"`},
		{alloc.Rules{AllowedDrivers: []string{"other"}}, `client.options does not name it in "driver.allowlist"`},
		{alloc.Rules{AllowedDrivers: []string{"fake"}, DeniedDrivers: []string{"fake"}}, `client.options names it in "driver.denylist"`},
	} {
		with(t, func(t *testing.T, b *bed) {
			b.cfg.Rules = x.rules
			b.run(newAlloc(newTask("web")))
			synctest.Wait()
			if x.why == "" {
				b.wants("web", "running")
				return
			}
			b.wants("", "failed")
			b.hasEvent("web", x.why)
			if len(b.driver.configs) != 0 {
				t.Errorf("%+v: the driver was asked", x.rules)
			}
		})
	}
}

func TestWhatAPluginHadBegunWhenItDiedIsEndedWhenItIsBack(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		died := errdefs.Unavailablef("error reading from server: EOF")
		b.driver.onStart = func(_ context.Context, c *driver.TaskConfig) error {
			b.driver.mu.Lock()
			defer b.driver.mu.Unlock()
			b.driver.tasks[c.ID] = &fakeTask{config: c, ended: make(chan struct{})}
			b.driver.away, b.driver.onStart = died, nil
			time.AfterFunc(3*time.Second, func() {
				b.driver.mu.Lock()
				defer b.driver.mu.Unlock()
				b.driver.away = nil
			})
			return died
		}
		task := newTask("web")
		task.RestartPolicy = &model.RestartPolicy{Attempts: 1, Interval: time.Hour, Delay: 10 * time.Second, Mode: "fail"}
		b.run(newAlloc(task))
		time.Sleep(time.Minute)
		synctest.Wait()
		b.wants("web", "running")
		if did := b.driver.did(); did != "start web, destroy web, start web" {
			t.Errorf("did %q", did)
		}
	})
}
