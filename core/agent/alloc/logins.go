// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"context"
	"fmt"

	"github.com/drover-project/drover/core/agent/logins"
	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/registry"
	"github.com/drover-project/drover/core/services"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Logins logs workloads in outside of the cluster. *logins.Keeper implements it.
type Logins interface {
	Get(ctx context.Context, l logins.Login) (registry.Credential, error)
}

// The variables and the file by which a task gets the token of its login at Consul; existing
// programs expect them.
const consulTokenFile = "secrets/consul_token"

var consulTokenVars = []string{"CONSUL_HTTP_TOKEN", "CONSUL_TOKEN"}

// TaskLogin returns the login of a task that has an identity for its Consul cluster. Templates
// read with it.
func TaskLogin(allocID string, tg *model.TaskGroup, t *model.Task) (logins.Login, bool) {
	cluster := tg.ConsulCluster(t)
	name := model.ConsulIdentity(cluster)
	if t.IdentityByName(name) == nil {
		return logins.Login{}, false
	}
	return logins.Login{
		Place: logins.Place{Registry: services.ProviderConsul, Cluster: cluster}, ID: logins.TaskID(allocID, t.Name), For: registry.ForTask,
		AllocID: allocID, Task: t.Name, Identity: name, Meta: loginMeta(allocID, "task", t.Name),
	}, true
}

// loginMeta says for whom a credential is, to people who look at the cluster's list.
func loginMeta(allocID, kind, name string) map[string]string {
	return map[string]string{"requested_by": "nomad " + kind + " " + name, "alloc_id": allocID}
}

// Logins returns the logins of the tasks that have not ended.
func (r *Runner) Logins() (out []logins.Login) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.group.Tasks {
		run := r.tasks[t.Name]
		if run == nil || run.state.Phase == task.Dead {
			continue
		}
		if l, ok := TaskLogin(r.id, r.group, t); ok {
			out = append(out, l)
		}
	}
	return out
}

// logIn logs the task in at Consul if the task has an identity for that. It retries while the
// servers or Consul cannot be reached.
func (p *preparation) logIn(ctx context.Context) error {
	l, ok := TaskLogin(p.id, p.group, p.task)
	if !ok {
		return nil
	}
	if p.cfg.Logins == nil {
		return errdefs.InvalidArgumentf("task %q has the identity %q, but this node cannot log in anywhere", p.name, l.Identity)
	}
	var last error
	err := p.runStep(ctx, p.name, step{name: StepLogin, limit: p.cfg.Limits.Identities, do: func(ctx context.Context) error {
		for pause := retryMin; ; pause = min(2*pause, retryMax) {
			c, err := p.cfg.Logins.Get(ctx, l)
			if err == nil {
				p.keepCredential(p.name, c.Secret)
				return p.writeTokens(p.name, p.task.ShownIdentities())
			}
			if errdefs.IsNotFound(err) { // its plugin may be about to start
				err = errdefs.Unavailablef("%w", err)
			}
			last = err
			if !errdefs.IsRetryable(err) || !p.pauseIn(ctx, pause) {
				return err
			}
		}
	}})
	if err != nil && last != nil && errdefs.IsDeadlineExceeded(err) {
		err = fmt.Errorf("%w; the last try: %w", err, last)
	}
	if err != nil {
		return fmt.Errorf("log the task in at cluster %q of Consul: %w", l.Cluster, err)
	}
	p.env = p.environment(p.alloc, p.task, p.info.Capabilities, p.rendered(p.name))
	return nil
}

// keepCredential remembers the secret of a task's login, and reports whether it is a new one.
func (r *Runner) keepCredential(name, secret string) bool {
	r.mu.Lock()
	t := &r.tasks[name].tokens
	changed := t.login != secret
	t.login = secret
	r.mu.Unlock()
	if changed {
		r.knowSecrets(name, r.rendered(name).Secret)
	}
	return changed
}

// TakeCredential gives a task the secret of its login: it was replaced, or this agent process
// does not know it yet. The task reads it from its file; the environment of a task that runs
// cannot change.
func (r *Runner) TakeCredential(name, secret string) {
	r.mu.Lock()
	run := r.tasks[name]
	takes := run != nil && !r.closed && run.state.Phase != task.Dead && run.state.Phase != task.Waiting
	r.mu.Unlock()
	if !takes || !r.keepCredential(name, secret) {
		return
	}
	r.tasks[name].tokens.signing.Lock()
	defer r.tasks[name].tokens.signing.Unlock()
	if err := r.dir.WriteSecret(name, consulTokenFile, []byte(secret)); err != nil {
		r.logger.Warn("a task does not get the new token of its login at Consul", "task", name, "file", consulTokenFile, "error", err)
	}
}
