// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/moby/moby/client"

	"github.com/drover-project/drover/sdk/errdefs"
)

// images knows which tasks use which image of a daemon, and which images the
// driver itself has fetched: only those are ever removed.
type images struct {
	path string
	// gate is held for writing while an image is removed, and for reading from
	// the moment an image was seen until it is known to be used.
	gate sync.RWMutex

	mu      sync.Mutex
	users   map[string]map[string]bool // tasks by image
	due     map[string]time.Time       // when an unused image may go
	fetched map[string][]string        // names by image
}

func openImages(dir, endpoint string) (*images, error) {
	sum := sha256.Sum256([]byte(endpoint))
	x := &images{
		path:  filepath.Join(dir, "images-"+hex.EncodeToString(sum[:6])+".json"),
		users: map[string]map[string]bool{}, due: map[string]time.Time{}, fetched: map[string][]string{},
	}
	return x, x.load()
}

// load reads which images were fetched; x.mu is held. It comes before each
// change: while the plugin is upgraded another process may have made one.
func (x *images) load() error {
	body, err := os.ReadFile(x.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return errdefs.FailedPreconditionf("read which images the driver fetched: %w", err)
	}
	fetched := map[string][]string{}
	if err := json.Unmarshal(body, &fetched); err == nil && fetched != nil { // not knowing them only means that they stay
		x.fetched = fetched
	}
	return nil
}

// use notes that a task uses an image.
func (x *images) use(image, task string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.users[image] == nil {
		x.users[image] = map[string]bool{}
	}
	x.users[image][task] = true
	delete(x.due, image)
}

// release notes that a task uses an image no more.
func (x *images) release(image, task string, now time.Time, c agentConfig) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.users[image], task)
	if len(x.users[image]) > 0 {
		return
	}
	delete(x.users, image)
	if c.GC.Image && len(x.fetched[image]) > 0 {
		x.due[image] = now.Add(c.imageDelay)
	}
}

// idle makes fetched images due that no task uses, as after the driver's start.
func (x *images) idle(at time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for image := range x.fetched {
		if _, waits := x.due[image]; !waits && len(x.users[image]) == 0 {
			x.due[image] = at
		}
	}
}

// own notes that the driver fetched an image under a name.
func (x *images) own(image, name string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.load(); err != nil {
		return err
	}
	if slices.Contains(x.fetched[image], name) {
		return nil
	}
	for other, names := range x.fetched { // the name has moved on
		x.fetched[other] = slices.DeleteFunc(names, func(n string) bool { return n == name })
	}
	x.fetched[image] = append(x.fetched[image], name)
	return x.save()
}

// save writes what was fetched; x.mu is held.
func (x *images) save() error {
	for image, names := range x.fetched {
		if len(names) == 0 && len(x.users[image]) == 0 {
			delete(x.fetched, image)
		}
	}
	body, err := json.Marshal(x.fetched)
	if err != nil {
		return errdefs.Internalf("encode which images the driver fetched: %w", err)
	}
	return replaceFile(x.path, body)
}

// collect removes the images whose time has come, and returns when the next
// one's does; the zero time if there is none.
func (d *daemon) collect(ctx context.Context, now time.Time) time.Time {
	x := d.images
	x.mu.Lock()
	var due []string
	for image, at := range x.due {
		if !at.After(now) {
			due = append(due, image)
		}
	}
	x.mu.Unlock()
	for _, image := range due {
		if err := d.removeImage(ctx, image); err != nil && ctx.Err() == nil {
			d.log.Warn("an image that no task uses cannot be removed", "image", image, "error", err)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	var next time.Time
	for _, at := range x.due {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// removeImage removes an image by the names under which the driver fetched it.
// The daemon keeps it where it has other names or somebody else's containers.
func (d *daemon) removeImage(ctx context.Context, image string) error {
	x := d.images
	x.gate.Lock()
	defer x.gate.Unlock()
	x.mu.Lock()
	names, used := slices.Clone(x.fetched[image]), len(x.users[image]) > 0
	delete(x.due, image)
	x.mu.Unlock()
	if used {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	for _, name := range names {
		_, err := d.api.Load().ImageRemove(limited, name, client.ImageRemoveOptions{PruneChildren: true})
		err = d.failed(ctx, err, "remove image %s", name)
		switch {
		case errdefs.IsConflict(err): // a container of somebody else's uses it
			x.postpone(image, time.Now().Add(imageRetry))
			return nil
		case err != nil && !errdefs.IsNotFound(err):
			x.postpone(image, time.Now().Add(imageRetry))
			return err
		}
	}
	d.log.Info("removed an image that no task uses", "image", image, "names", names)
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.load(); err != nil {
		return err
	}
	delete(x.fetched, image)
	return x.save()
}

// imageRetry is when an image that could not be removed is looked at again.
const imageRetry = 10 * time.Minute

func (x *images) postpone(image string, at time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.due[image] = at
}
