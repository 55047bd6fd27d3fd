// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package artifact fetches the artifacts of tasks. It owns the agent's part: it starts
// a sandboxed child (cmd/drover-artifact) per artifact in a staging directory beside
// the task's directory, ends it at its deadline, inspects the result, and moves it to
// its destination only when it is complete. It does not access sources itself and
// links no getter. Only core/agent and packages below it may import it.
package artifact

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/artifact/wire"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Config configures the fetching of artifacts. Start with DefaultConfig.
type Config struct {
	// Binary is the path of drover-artifact. If it is empty, the environment variable
	// DROVER_ARTIFACT_BINARY names it, or else it lies beside the agent's own executable.
	Binary string
	// Limits of one fetch; zero means no limit.
	Limits wire.Limits
	// DisableFilesystemIsolation disables Landlock.
	DisableFilesystemIsolation bool
	// DisableArtifactInspection accepts links and special files that leave the
	// artifact. Permissions are still cut to rwx.
	DisableArtifactInspection bool
	// ExtraPaths are paths beyond the staging folder that a fetch may use, each
	// "f:MODE:PATH" (a file) or "d:MODE:PATH" (a folder), MODE being letters of
	// r, w, c and x. A readable one may also be the source of an artifact.
	ExtraPaths []string
	// Environment names variables of the agent that fetches inherit.
	Environment []string
	// MaxParallel is the number of fetches with progress that may run at once on this
	// node.
	MaxParallel int
	// StallAfter is how long a fetch may make no progress before it no longer counts
	// for MaxParallel. It continues.
	StallAfter time.Duration
	// KillAfter kills a fetch that ignores its own limits. Zero means a default well
	// above them.
	KillAfter time.Duration
}

// DefaultConfig returns the documented defaults.
func DefaultConfig() Config {
	const half, most = 30 * time.Minute, 100 * 1000 * 1000 * 1000
	return Config{
		MaxParallel: 16, StallAfter: 15 * time.Second,
		Limits: wire.Limits{
			HTTPReadTimeout: half, GCSTimeout: half, GitTimeout: half, HgTimeout: half, S3Timeout: half,
			HTTPMaxBytes: most, UnpackMaxBytes: most, UnpackMaxFiles: 4096,
		},
	}
}

// Request describes one artifact of a task.
type Request struct {
	// Artifact with its variables already replaced.
	Artifact *model.TaskArtifact
	// TaskDir is the absolute path of the task's folder; its parent is the
	// alloc's. The artifact may land in it or in the alloc's shared folder.
	TaskDir string
	// User is the owner of the files if the artifact has chown. If it is empty, the
	// files belong to the agent's user.
	User string
}

// Fetcher fetches artifacts for all tasks of a node.
type Fetcher struct {
	cfg   Config
	log   hclog.Logger
	lanes *lanes

	mu     sync.Mutex
	active map[string]bool // staging directories in use
	warned map[string]bool // warnings that were already logged
}

// New returns a Fetcher. It starts nothing.
func New(cfg Config, logger hclog.Logger) *Fetcher {
	return &Fetcher{
		cfg: cfg, log: logger.Named("artifact"), lanes: newLanes(cfg.MaxParallel, cfg.StallAfter),
		active: map[string]bool{}, warned: map[string]bool{},
	}
}

// Fetch fetches an artifact and puts it in its destination, and on failure changes nothing
// that a task can see. It calls progress, which may be nil, at intervals with the number of
// bytes so far. InvalidArgument: the request can never succeed (a bad source, a wrong
// checksum, a limit, an escape). Canceled: ctx has ended. Unavailable: everything else. The
// text contains no credentials of the source.
func (f *Fetcher) Fetch(ctx context.Context, req Request, progress func(bytes int64)) error {
	if req.Artifact == nil {
		return errdefs.InvalidArgumentf("there is no artifact to fetch; this is a defect of the caller")
	}
	source, err := sourceOf(req.Artifact)
	if err != nil {
		return fmt.Errorf("artifact %s: %w", Redact(req.Artifact.GetterSource), err)
	}
	dest, err := destinationOf(req)
	if err != nil {
		return fmt.Errorf("artifact %s: %w", Redact(source), err)
	}
	lane, err := f.lanes.enter(ctx)
	if err != nil {
		return errdefs.Canceledf("artifact %s was given up before its turn came: %w", Redact(source), err)
	}
	defer lane.leave()
	err = f.fetch(ctx, req, source, dest, lane.watching(progress))
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return errdefs.Canceledf("artifact %s was given up: %w", Redact(source), ctx.Err())
	}
	err = hideSecrets(fmt.Errorf("artifact %s: %w", Redact(source), err), source, req.Artifact)
	if !errdefs.IsInvalidArgument(err) {
		err = errdefs.New(errdefs.Unavailable, err) // an error of this machine, which may be temporary
	}
	return err
}

func (f *Fetcher) fetch(ctx context.Context, req Request, source string, dest destination, progress func(int64)) error {
	binary, err := f.binary()
	if err != nil {
		return err
	}
	owner, err := ownerOf(req)
	if err != nil {
		return err
	}
	st, err := f.stage(dest.alloc, binary)
	if err != nil {
		return err
	}
	defer st.remove()
	ask := &wire.Request{
		Source: source, Mode: mode(req.Artifact), Headers: req.Artifact.GetterHeaders, Insecure: req.Artifact.GetterInsecure,
		Staging: st.path, Isolate: !f.cfg.DisableFilesystemIsolation, ExtraPaths: f.cfg.ExtraPaths, Limits: f.cfg.Limits,
	}
	if err := f.runChild(ctx, binary, st, ask, progress); err != nil {
		return err
	}
	if err := st.seal(); err != nil {
		return err
	}
	if err := st.inspect(f.cfg, mode(req.Artifact)); err != nil {
		return err
	}
	if err := st.give(owner); err != nil {
		return err
	}
	return st.place(dest, mode(req.Artifact))
}

func mode(a *model.TaskArtifact) string {
	if a.GetterMode == "" {
		return "any"
	}
	return a.GetterMode
}

// warnOnce logs a warning only the first time.
func (f *Fetcher) warnOnce(msg string, args ...any) {
	f.mu.Lock()
	first := !f.warned[msg]
	f.warned[msg] = true
	f.mu.Unlock()
	if first {
		f.log.Warn(msg, args...)
	}
}
