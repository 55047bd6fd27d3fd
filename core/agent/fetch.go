// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"os"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/agent/allocdir"
	"github.com/drover-project/drover/core/agent/artifact"
	"github.com/drover-project/drover/core/agent/mounts"
	"github.com/drover-project/drover/core/agent/template"
	"github.com/drover-project/drover/sdk/errdefs"
)

// artifacts fetches for the runners.
type artifacts struct{ *artifact.Fetcher }

// Fetch fetches one artifact of a task.
func (a artifacts) Fetch(ctx context.Context, q alloc.ArtifactRequest, progress func(int64)) error {
	return a.Fetcher.Fetch(ctx, artifact.Request{Artifact: q.Artifact, TaskDir: q.TaskDir, User: q.User}, progress)
}

// templates renders for the runners.
type templates struct{ *template.Engine }

// Open opens the templates of a task. Their files belong to the agent unless they name an
// owner. They read variables and services on behalf of the alloc's namespace and job.
func (t templates) Open(ctx context.Context, q alloc.TemplateTask) (alloc.Rendering, error) {
	return t.Engine.Open(ctx, template.Task{
		Templates: q.Templates, Env: q.Env, TaskDir: q.TaskDir, AllocDir: q.AllocDir, UID: os.Getuid(), GID: os.Getgid(),
		Scope: scopeOf(q.Alloc.Namespace, q.Alloc.JobID), Registry: q.Registry, Running: q.Running,
	})
}

// prepares passes the artifact fetcher, the templates and the like to the runners.
func (a *Agent) prepares(run *alloc.Config) error {
	if a.cfg.DynamicUserMax > 0 && os.Geteuid() != 0 {
		return errdefs.FailedPreconditionf("client.users: an agent that does not run as root cannot run tasks as other users; run it as root, or leave the block out")
	}
	run.Users = alloc.NewUsers(a.cfg.DynamicUserMin, a.cfg.DynamicUserMax, userExists)
	fetch := artifact.DefaultConfig()
	if a.cfg.Artifact != nil {
		fetch = *a.cfg.Artifact
	}
	run.Artifacts = artifacts{artifact.New(fetch, a.cfg.Logger)}
	render := a.cfg.Template
	if render.Logger == nil {
		render.Logger = a.cfg.Logger.Named("template")
	}
	render.Source = source{a}
	run.Identities, run.API = signatures{a}, a.taskAPI
	run.Templates = templates{template.New(render)}
	run.Limits, run.MaxKillTimeout = alloc.DefaultLimits(), a.cfg.MaxKillTimeout
	if mounts.Private() {
		a.cfg.Logger.Warn("the agent has a mount namespace of its own: what is mounted for tasks (networks, secrets in memory, volumes) is lost when the agent is restarted, and tasks may be restarted with it; remove what makes the namespace from its unit: PrivateTmp, PrivateMounts, ProtectSystem, ProtectHome and the like")
	}
	if a.cfg.SecretsInMemory {
		if err := allocdir.ProbeSecrets(a.cfg.AllocDir); err != nil {
			a.cfg.Logger.Warn("secrets of tasks are kept on disk", "reason", err)
		} else {
			run.SecretsInMemory = true
			a.facts.Attributes["drover.secrets.tmpfs"] = "true"
		}
	}
	return a.openDNS(run)
}
