// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package releases

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// notice checks whether the node still has what the registry installed, and reports
// whether something must be installed again. A plugin with another digest was put
// there by the host, which rolled back a failed one, or by an operator: this is
// reported but not undone.
func (k *Keeper) notice(ctx context.Context) (again bool) {
	digests, _ := k.cfg.Host.Digests()
	for _, name := range k.names() {
		h, _ := k.get(name)
		digest, there := digests[name]
		if h.Revision == 0 || there && (digest == "" || digest == h.Digest) {
			continue
		}
		next := h
		next.Revision, next.Digest = 0, ""
		if there {
			next.Failed, next.Error = h.Revision, "the node went back to another file ("+digest+"), or somebody put it there"
			if h.Before != nil && h.Before.Digest == digest {
				next.Revision, next.Digest, next.Before = h.Before.Revision, h.Before.Digest, nil
			}
			k.attempts[name] = &attempt{revision: h.Revision}
		} else {
			next.Error, again = "its file is gone; it is installed again", true
		}
		k.cfg.Logger.Warn("a plugin of the registry has changed on this node", "plugin", name, "was", h.Digest, "is", digest)
		k.set(ctx, name, &next)
	}
	return again
}

// have makes the host install a release, unless it is already running or a retry is
// not due yet.
func (k *Keeper) have(ctx context.Context, name string, r *model.PluginRelease) {
	h, known := k.get(name)
	if h.Revision == r.Revision {
		delete(k.attempts, name)
		return
	}
	last := k.attempts[name]
	if last == nil || last.revision != r.Revision {
		last = &attempt{revision: r.Revision}
	} else if last.next.IsZero() || time.Now().Before(last.next) {
		return
	}
	if !known {
		digests, _ := k.cfg.Host.Digests()
		_, h.Found = digests[name]
	}
	k.cfg.Logger.Info("installing a plugin of the registry", "plugin", name, "version", r.Version, "digest", r.Digest)
	err := k.install(ctx, name, r)
	if ctx.Err() != nil {
		return // the next agent tries again
	}
	if err == nil {
		delete(k.attempts, name)
		next := held{Revision: r.Revision, Digest: r.Digest, Found: h.Found}
		if h.Revision != 0 {
			next.Before = &held{Revision: h.Revision, Digest: h.Digest}
		}
		k.set(ctx, name, &next)
		return
	}
	k.attempts[name] = last
	k.fail(ctx, name, h, r, last, err)
}

// fail records why a release could not be installed. If the file cannot be reached,
// the installation is retried until the servers give up; other failures are retried
// only if the cause was lack of resources.
func (k *Keeper) fail(ctx context.Context, name string, h held, r *model.PluginRelease, last *attempt, err error) {
	last.failures++
	wait := backoff(last.failures)
	last.next = time.Now().Add(wait)
	h.Error = shorten(err.Error())
	switch {
	case errdefs.IsUnavailable(err), errdefs.IsDeadlineExceeded(err):
	case errdefs.IsResourceExhausted(err):
		h.Failed = r.Revision
	default:
		h.Failed, last.next = r.Revision, time.Time{}
	}
	k.cfg.Logger.Error("a plugin of the registry could not be installed", "plugin", name, "version", r.Version, "retry", !last.next.IsZero(), "error", err)
	k.set(ctx, name, &h)
}

func shorten(text string) string {
	if len(text) > maxErrorText {
		return text[:maxErrorText] + "…"
	}
	return text
}

func (k *Keeper) install(ctx context.Context, name string, r *model.PluginRelease) error {
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	if digests, _ := k.cfg.Host.Digests(); r.Source != model.PluginSourceUploaded || digests[name] == r.Digest {
		return k.cfg.Host.Install(ctx, name, r, nil)
	}
	// The host reads while the servers send.
	file, sent := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := k.cfg.Servers.PluginFile(ctx, k.cfg.Identity, r.Digest, func(data []byte) error {
			_, err := sent.Write(data)
			return err
		})
		if err != nil {
			err = fmt.Errorf("fetch %s from the servers: %w", r.Digest, err)
		}
		sent.CloseWithError(err) // nil is the end of the file
	}()
	err := k.cfg.Host.Install(ctx, name, r, file)
	_ = file.Close() // ends an upload that nobody reads any more; it cannot fail
	<-done
	return err
}

// drop removes from the node what the registry has installed.
func (k *Keeper) drop(ctx context.Context, name string) {
	h, _ := k.get(name)
	last := k.attempts[name]
	if last != nil && last.revision == 0 && time.Now().Before(last.next) {
		return
	}
	var err error
	if !h.Found && h.Revision != 0 {
		call, cancel := context.WithTimeout(ctx, installTimeout)
		err = k.cfg.Host.Remove(call, name)
		cancel()
	}
	if err == nil || errdefs.IsNotFound(err) {
		k.cfg.Logger.Info("the registry has no plugin of this name for this node any more", "plugin", name, "removed", !h.Found && h.Revision != 0)
		delete(k.attempts, name)
		k.set(ctx, name, nil)
		return
	}
	if ctx.Err() != nil {
		return
	}
	if last == nil || last.revision != 0 {
		last = &attempt{}
		k.attempts[name] = last
	}
	last.failures++
	last.next = time.Now().Add(backoff(last.failures))
	next := h
	next.Error = shorten("it is to be removed: " + err.Error())
	k.set(ctx, name, &next)
}
