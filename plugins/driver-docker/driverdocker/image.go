// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/distribution/reference"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// prepareImage makes sure that the daemon has the task's image and returns the
// image's id. From then on the task counts as a user of the image.
func (d *daemon) prepareImage(ctx context.Context, agent agentConfig, c taskConfig, task *driver.TaskConfig) (string, error) {
	// The image may be removed before it is used, so this is repeated.
	for range imageTries {
		had, err := d.imageID(ctx, c.Image)
		if err != nil && !errdefs.IsNotFound(err) {
			return "", err
		}
		fetched := err != nil || wantsNewest(c)
		if fetched {
			if c.Load != "" {
				err = d.load(ctx, c, task)
			} else {
				err = d.pull(ctx, agent, c, task)
			}
			if err != nil {
				return "", err
			}
		}
		id, err := d.seize(ctx, c.Image, task.ID)
		if err == nil && id != had { // the image that was there may be the operator's
			if err := d.images.own(id, c.Image); err != nil {
				d.log.Warn("a pulled image will not be removed", "image", c.Image, "error", err)
			}
		}
		if !errdefs.IsNotFound(err) || fetched {
			return id, err
		}
	}
	return "", errdefs.Abortedf("image %s: was removed each time after it was pulled; find the program that removes it", c.Image)
}

const imageTries = 3

// wantsNewest reports whether the image is pulled or loaded even if the daemon has one.
func wantsNewest(c taskConfig) bool {
	if c.Load != "" || c.ForcePull {
		return true
	}
	named, err := reference.ParseDockerRef(c.Image)
	if err != nil {
		return false // the daemon says what is wrong
	}
	tagged, ok := named.(reference.Tagged)
	return ok && tagged.Tag() == "latest"
}

func (d *daemon) imageID(ctx context.Context, name string) (string, error) {
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	r, err := d.api.Load().ImageInspect(limited, name)
	return r.ID, d.failed(ctx, err, "look up image %s", name)
}

// seize records the task as a user of the image.
func (d *daemon) seize(ctx context.Context, name, taskID string) (string, error) {
	d.images.gate.RLock()
	defer d.images.gate.RUnlock()
	id, err := d.imageID(ctx, name)
	if err == nil {
		d.images.use(id, taskID)
	}
	return id, err
}

func (d *daemon) pull(ctx context.Context, agent agentConfig, c taskConfig, task *driver.TaskConfig) error {
	limit, err := c.pullLimit(agent)
	if err != nil {
		return err
	}
	named, err := reference.ParseDockerRef(c.Image)
	if err != nil {
		return invalidf("image", "%q is not an image name: %w", c.Image, err)
	}
	auth, err := credentials(ctx, agent, c, named, d.index(ctx))
	if err != nil {
		return err
	}
	key := pullKey{ref: named.String()}
	if auth != nil {
		if key.auth, err = authconfig.Encode(*auth); err != nil {
			return errdefs.Internalf("encode the credentials for image %s: %w", c.Image, err)
		}
	}
	return d.fetch(ctx, key, task.ID, limit, agent.activityTimeout)
}

// index returns the address of the daemon's default registry, in the form that
// Docker's own client uses.
func (d *daemon) index(ctx context.Context) string {
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	info, err := d.api.Load().Info(limited, client.InfoOptions{})
	if err != nil {
		return "" // the pull will report the error
	}
	return info.Info.IndexServerAddress
}

// loadLimit is the time limit for loading an archive.
const loadLimit = 30 * time.Minute

// load sends an image archive in the task's directory to the daemon.
func (d *daemon) load(ctx context.Context, c taskConfig, task *driver.TaskConfig) error {
	f, err := openArchive(task.TaskDir, c.Load)
	if err != nil {
		return err
	}
	defer f.Close()
	d.events.tell(task.ID, "Loading image", map[string]string{"image": c.Image, "archive": c.Load})
	limited, cancel := context.WithTimeout(ctx, loadLimit)
	defer cancel()
	defer d.events.progress(task.ID, driver.Progress{})
	r, err := d.api.Load().ImageLoad(limited, d.events.reading(f, task.ID), client.ImageLoadWithQuiet(true))
	if err != nil {
		return d.failed(ctx, err, "load image %s from %s", c.Image, c.Load)
	}
	defer r.Close()
	if err := loaded(r); err != nil {
		return errdefs.InvalidArgumentf("load image %s from %s: the Docker daemon rejects the archive: %w", c.Image, c.Load, err)
	}
	if _, err := d.imageID(ctx, c.Image); errdefs.IsNotFound(err) {
		return invalidf("load", "the archive %s has no image %q; set image to a name that it has", c.Load, c.Image)
	}
	return nil
}

// loaded reads the daemon's progress messages to the end and returns the error among
// them.
func loaded(r io.Reader) error {
	dec := json.NewDecoder(r)
	for {
		var m jsonstream.Message
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if m.Error != nil {
			return m.Error
		}
	}
}

// openArchive opens a file in the task's directory without following links out of
// it. Names are relative to local/, where artifacts are.
func openArchive(taskDir, name string) (*os.File, error) {
	root, err := os.OpenRoot(taskDir)
	if err != nil {
		return nil, errdefs.FailedPreconditionf("open the task's directory: %w", err)
	}
	defer root.Close()
	f, err := root.Open(filepath.Join("local", name))
	if errors.Is(err, fs.ErrNotExist) {
		f, err = root.Open(filepath.Clean(name))
	}
	if err != nil {
		return nil, invalidf("load", "there is no archive %q in the task's directory; fetch it with an artifact: %w", name, err)
	}
	return f, nil
}
