// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/drover-project/drover/core/agent/allocdir"
	"github.com/drover-project/drover/core/agent/artifact"
	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Artifacts fetches what a task needs before it starts. An error names the artifact without
// its secrets; an error of class InvalidArgument is permanent, any other may be temporary.
type Artifacts interface {
	Fetch(ctx context.Context, req ArtifactRequest, progress func(bytes int64)) error
}

// ArtifactRequest is one artifact, with all variables replaced.
type ArtifactRequest struct {
	Artifact *model.TaskArtifact
	TaskDir  string // absolute; the artifact may land only below it and in the shared folder
	User     string // owner of what is fetched, if the artifact wants that
}

// folders makes the directories of the alloc and of the task, with the files that the node
// itself writes.
func (p *preparation) folders(ctx context.Context) error {
	if err := p.step(ctx, StepDirectory, p.cfg.Limits.Disk, p.build); err != nil {
		return err
	}
	if p.cfg.SecretsInMemory {
		if err := p.step(ctx, StepSecrets, p.cfg.Limits.Disk, p.mountSecrets); err != nil {
			return err
		}
	}
	p.openAPI(p.name)
	if p.task.DispatchPayload == nil || len(p.alloc.Job.Payload) == 0 {
		return nil
	}
	return p.step(ctx, StepPayload, p.cfg.Limits.Disk, func(context.Context) error {
		return writePayload(p.dir, p.alloc.Job.Payload, p.task)
	})
}

func (p *preparation) mountSecrets(context.Context) error {
	size := 0
	if p.task.Resources != nil {
		size = p.task.Resources.SecretsMB
	}
	fresh, err := p.dir.MountSecrets(p.name, size)
	if err == nil && fresh {
		p.mu.Lock()
		p.tasks[p.name].fetched = false // a reboot has emptied the memory file system
		p.mu.Unlock()
	}
	return err
}

// build makes the folders. Only one task at a time makes the folders of the alloc.
func (p *preparation) build(ctx context.Context) error {
	p.building.Lock()
	defer p.building.Unlock()
	if !p.built {
		if err := p.buildDir(ctx); err != nil {
			return err
		}
		p.built = true
	}
	return p.dir.BuildTask(p.name)
}

// fetch fetches the task's artifacts, once in the life of the alloc.
func (p *preparation) fetch(ctx context.Context) error {
	p.mu.Lock()
	done := p.tasks[p.name].fetched
	p.mu.Unlock()
	if done || len(p.task.Artifacts) == 0 {
		return nil
	}
	if p.cfg.Artifacts == nil {
		return &stepError{task.InArtifact, errdefs.InvalidArgumentf("task %q has artifacts, which this node cannot fetch", p.name)}
	}
	p.note(p.name, model.EventDownloading())
	progress := &fetchProgress{}
	err := p.runStep(ctx, p.name, step{name: StepArtifacts, limit: p.cfg.Limits.Artifacts * time.Duration(len(p.task.Artifacts)), detail: progress.String, do: func(ctx context.Context) error {
		for _, a := range p.task.Artifacts {
			x := p.replaceArtifact(a)
			progress.begin(artifact.Redact(x.GetterSource))
			if err := p.cfg.Artifacts.Fetch(ctx, ArtifactRequest{Artifact: x, TaskDir: p.dir.Task(p.name), User: p.env.Replace(p.task.User)}, progress.add); err != nil {
				return fmt.Errorf("failed to download %w", err)
			}
		}
		return nil
	}})
	if err != nil {
		return &stepError{task.InArtifact, err}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tasks[p.name]
	t.fetched, t.dirty = true, true
	return nil
}

func (p *preparation) replaceArtifact(a *model.TaskArtifact) *model.TaskArtifact {
	out := *a
	out.GetterSource, out.RelativeDest, out.GetterMode = p.env.Replace(a.GetterSource), p.env.Replace(a.RelativeDest), p.env.Replace(a.GetterMode)
	out.GetterOptions, out.GetterHeaders = replaceValues(p.env.Replace, a.GetterOptions), replaceValues(p.env.Replace, a.GetterHeaders)
	return &out
}

func replaceValues(replace func(string) string, in map[string]string) map[string]string {
	if in == nil {
		return nil
	}
	out := make(map[string]string, len(in))
	for k, v := range in {
		out[k] = replace(v)
	}
	return out
}

// writePayload writes the dispatch payload to the file that the task names, which must be
// below its local folder.
func writePayload(dir allocdir.Dir, payload []byte, t *model.Task) error {
	root, err := os.OpenRoot(dir.Path)
	if err != nil {
		return fmt.Errorf("open the alloc directory: %w", err)
	}
	defer root.Close()
	local := filepath.Join(t.Name, allocdir.LocalDir)
	file := filepath.Join(local, filepath.Clean("/"+t.DispatchPayload.File))
	if file == local {
		return errdefs.InvalidArgumentf("dispatch payload %q of task %q names no file; set file to one", t.DispatchPayload.File, t.Name)
	}
	if err := root.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return errdefs.InvalidArgumentf("make the folder of the dispatch payload %q: %w", t.DispatchPayload.File, err)
	}
	if err := root.WriteFile(file, payload, 0o666); err != nil {
		return errdefs.InvalidArgumentf("write the dispatch payload %q: %w", t.DispatchPayload.File, err)
	}
	if err := root.Chmod(file, 0o666); err != nil { // the umask has removed these permissions
		return fmt.Errorf("set the mode of the dispatch payload %q: %w", t.DispatchPayload.File, err)
	}
	return nil
}

// fetchProgress is the progress of an artifact's download.
type fetchProgress struct {
	mu     sync.Mutex
	source string
	bytes  int64
}

func (p *fetchProgress) begin(source string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.source, p.bytes = source, 0
}

func (p *fetchProgress) add(total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes = total
}

// String is the artifact and how much of it is there.
func (p *fetchProgress) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.source == "" {
		return ""
	}
	return p.source + ", " + strconv.FormatInt(p.bytes, 10) + " bytes so far"
}
