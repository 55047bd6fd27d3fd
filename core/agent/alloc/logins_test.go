// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/agent/logins"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/registry"
	"github.com/drover-project/drover/sdk/errdefs"
)

// entrance lets workloads in.
type entrance struct {
	mu   sync.Mutex
	seen []logins.Login
	err  error
}

func (e *entrance) Get(_ context.Context, l logins.Login) (registry.Credential, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen = append(e.seen, l)
	return registry.Credential{ID: "id", Secret: "the-secret-of-" + l.Task}, e.err
}

func (e *entrance) set(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
}

func TestATaskIsLoggedInAtConsulBeforeItStarts(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		e := &entrance{err: errdefs.Unavailablef("Consul is away")}
		b.cfg.Logins, b.cfg.Identities = e, &signer{}
		task := newTask("web")
		task.Consul = &model.Consul{Cluster: "east"}
		task.Identities = []*model.WorkloadIdentity{{Name: "consul_east", Audience: []string{"consul.io"}}}
		b.run(newAlloc(task))
		time.Sleep(time.Minute)
		synctest.Wait()
		b.wants("", "pending") // it is no failure of the task that Consul is away
		if at := b.r.Steps()[0]; at.Step != alloc.StepLogin {
			t.Errorf("it waits at %+v", at)
		}
		e.set(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		b.wants("web", "running")
		const secret = "the-secret-of-web"
		if c := b.driver.configs[0]; c.SecretEnv["CONSUL_TOKEN"] != secret || c.SecretEnv["CONSUL_HTTP_TOKEN"] != secret || c.Env["CONSUL_TOKEN"] != "" {
			t.Errorf("variables: %v", c.SecretEnv)
		}
		if got := b.file("secrets/consul_token"); got != secret {
			t.Errorf("the file has %q", got)
		}
		l := e.seen[0]
		if l.Cluster != "east" || l.Registry != "consul" || l.For != registry.ForTask || l.Identity != "consul_east" || l.AllocID != "a1" {
			t.Errorf("logged in as %+v", l)
		}
		if all := b.r.Logins(); len(all) != 1 || all[0].ID != l.ID {
			t.Errorf("logins of the running alloc: %+v", all)
		}
		b.r.TakeCredential("web", "another-secret")
		if got := b.file("secrets/consul_token"); got != "another-secret" {
			t.Errorf("after a renewal the file has %q", got)
		}
	})
}

func TestATaskThatConsulDoesNotLetInFails(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.cfg.Logins, b.cfg.Identities = &entrance{err: errdefs.PermissionDeniedf("no binding rule")}, &signer{}
		task := newTask("web")
		task.Identities = []*model.WorkloadIdentity{{Name: "consul_default"}}
		task.RestartPolicy = &model.RestartPolicy{Mode: model.RestartPolicyModeFail}
		b.run(newAlloc(task))
		time.Sleep(time.Minute)
		synctest.Wait()
		b.wants("", "failed")
		if all := b.events("web"); !strings.Contains(all, "no binding rule") {
			t.Errorf("no event says why: %s", all)
		}
	})
}
