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

// images tracks which tasks use which images of a daemon, and which images the
// driver itself has pulled: only those are ever removed.
type images struct {
	path string
	// gate is write-locked while an image is removed, and read-locked from finding an
	// image until its use is recorded.
	gate sync.RWMutex

	mu      sync.Mutex
	users   map[string]map[string]bool // tasks by image
	due     map[string]time.Time       // when an unused image may be removed
	fetched map[string][]string        // names of the images that the driver pulled, by image
}

func openImages(dir, endpoint string) (*images, error) {
	sum := sha256.Sum256([]byte(endpoint))
	x := &images{
		path:  filepath.Join(dir, "images-"+hex.EncodeToString(sum[:6])+".json"),
		users: map[string]map[string]bool{}, due: map[string]time.Time{}, fetched: map[string][]string{},
	}
	return x, x.load()
}

// load reads the list of pulled images. The caller holds x.mu and calls it before
// every change, because during an upgrade another process may have changed the list.
func (x *images) load() error {
	body, err := os.ReadFile(x.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return errdefs.FailedPreconditionf("read the list of pulled images: %w", err)
	}
	fetched := map[string][]string{}
	if err := json.Unmarshal(body, &fetched); err == nil && fetched != nil { // if the list is lost the images stay
		x.fetched = fetched
	}
	return nil
}

// use records that a task uses an image.
func (x *images) use(image, task string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.users[image] == nil {
		x.users[image] = map[string]bool{}
	}
	x.users[image][task] = true
	delete(x.due, image)
}

// release records that a task no longer uses an image.
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

// idle schedules the removal of pulled images that no task uses, as after the
// driver's start.
func (x *images) idle(at time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for image := range x.fetched {
		if _, waits := x.due[image]; !waits && len(x.users[image]) == 0 {
			x.due[image] = at
		}
	}
}

// own records that the driver pulled an image under a name.
func (x *images) own(image, name string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.load(); err != nil {
		return err
	}
	if slices.Contains(x.fetched[image], name) {
		return nil
	}
	for other, names := range x.fetched { // the name now refers to the new image
		x.fetched[other] = slices.DeleteFunc(names, func(n string) bool { return n == name })
	}
	x.fetched[image] = append(x.fetched[image], name)
	return x.save()
}

// save writes the list of pulled images. The caller holds x.mu.
func (x *images) save() error {
	for image, names := range x.fetched {
		if len(names) == 0 && len(x.users[image]) == 0 {
			delete(x.fetched, image)
		}
	}
	body, err := json.Marshal(x.fetched)
	if err != nil {
		return errdefs.Internalf("encode the list of pulled images: %w", err)
	}
	return replaceFile(x.path, body)
}

// collect removes the images that are due. It returns when the next one is due, or
// the zero time if there is none.
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

// removeImage removes the names under which the driver pulled an image. The daemon
// keeps the image if it has other names or other containers use it.
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
		case errdefs.IsConflict(err): // another container uses it
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

// imageRetry is the delay before the next attempt to remove an image.
const imageRetry = 10 * time.Minute

func (x *images) postpone(image string, at time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.due[image] = at
}
