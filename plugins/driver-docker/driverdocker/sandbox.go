// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// The Docker daemon lets containers join only a namespace of another container. So the
// network of an alloc belongs to a container of its own, the sandbox, which does nothing.
// The host puts links and addresses into its namespace, and all tasks of the alloc join it:
// containers by the sandbox's id, other tasks by its path.

var _ driver.Networker = (*Driver)(nil)

const (
	// sandboxLabel and sandboxEndpoint are labels of a group's network: the id of the
	// sandbox, and the daemon that has it.
	sandboxLabel    = "docker_sandbox_container_id"
	sandboxEndpoint = "docker_endpoint"
	// labelSandbox is the label of a sandbox, with the alloc's id. It has no task's label,
	// so it is never taken for a task.
	labelSandbox = "io.drover.network"
	// networksDir has a directory for each alloc with such a network; see networkDir.
	networksDir = "networks"
	// sandboxTries is the number of attempts to find, make or start a sandbox that another
	// call may change meanwhile.
	sandboxTries = 6
)

// allocName matches valid ids of allocs, since they become parts of names.
var allocName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)

func sandboxName(allocID string) string { return "drover_network_" + allocID }

// sandbox is one call that makes a sandbox.
type sandbox struct {
	*Driver
	daemon *daemon
	agent  agentConfig
	req    driver.NetworkRequest
	name   string
	// created is the container that this call has made; "" if there was one.
	created string
}

// CreateNetwork implements driver.Networker. The daemon gives a name only once, so a
// repeated call, whatever happened to the first, finds the same sandbox. One that has ended
// is started again and gets a new namespace, at the same path.
func (d *Driver) CreateNetwork(ctx context.Context, req driver.NetworkRequest) (*driver.NetworkIsolation, error) {
	agent, x, err := d.forNetwork(req.AllocID)
	if err != nil {
		return nil, err
	}
	s := &sandbox{Driver: d, daemon: x, agent: agent, req: req, name: sandboxName(req.AllocID)}
	out, err := s.make(ctx)
	if err != nil {
		s.undo()
		return nil, errdefs.New(errdefs.ClassOf(err), fmt.Errorf("make the network namespace of alloc %s: %w", req.AllocID, err))
	}
	return out, nil
}

// forNetwork prepares a call about the network of an alloc.
func (d *Driver) forNetwork(allocID string) (agentConfig, *daemon, error) {
	agent, x, _ := d.now()
	if x == nil {
		return agent, nil, errdefs.FailedPreconditionf("the docker driver has no config yet")
	}
	if !allocName.MatchString(allocID) {
		return agent, nil, errdefs.InvalidArgumentf("%q is not the id of an alloc", allocID)
	}
	return agent, x, nil
}

func (s *sandbox) make(ctx context.Context) (*driver.NetworkIsolation, error) {
	last := errdefs.Abortedf("container %s is removed again and again; find out by whom", s.name)
	for range sandboxTries {
		c, err := s.daemon.inspect(ctx, s.name)
		switch {
		case errdefs.IsNotFound(err):
			err = s.create(ctx)
			if errdefs.IsConflict(err) { // an earlier call, whose answer was lost, has made it meanwhile
				err = nil
			}
		case err != nil:
		case c.Config.Labels[labelOwner] != s.owner || c.Config.Labels[labelSandbox] != s.req.AllocID:
			err = errdefs.FailedPreconditionf("container %s (%s) has the name that the network's container needs, but does not belong to this node; remove or rename it", s.name, short(c.ID))
		case c.State.Dead || c.State.Status == container.StateRemoving:
			err = s.daemon.remove(ctx, c.ID)
		case !c.State.Running:
			last = errdefs.FailedPreconditionf("container %s of image %s, which must run as long as the network is used, ended with exit code %d; see infra_image in the agent's plugin \"docker\" config", s.name, c.Config.Image, c.State.ExitCode)
			err = s.start(ctx, c)
		default:
			if last = s.keep(c); last == nil {
				return &driver.NetworkIsolation{
					Mode: driver.NetworkGroup, Path: s.namespace(s.req.AllocID), Hostname: s.req.Hostname,
					Labels: map[string]string{sandboxLabel: c.ID, sandboxEndpoint: s.daemon.endpoint},
				}, nil
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, last
}

// networkDir returns the driver's directory for the network of an alloc: the namespace, and
// the files of its tasks.
func (d *Driver) networkDir(allocID string) string { return filepath.Join(d.dir, networksDir, allocID) }

// namespace is the path of the namespace of an alloc.
func (d *Driver) namespace(allocID string) string {
	return filepath.Join(d.networkDir(allocID), "namespace")
}

// keep makes the namespace of a container that runs the alloc's.
func (s *sandbox) keep(c container.InspectResponse) error {
	if err := os.MkdirAll(s.networkDir(s.req.AllocID), 0o700); err != nil {
		return errdefs.FailedPreconditionf("make a directory for the network: %w", err)
	}
	return keepNamespace(c.ID, c.State.Pid, s.namespace(s.req.AllocID))
}

// forgetNetwork removes the mounts and files that keep and writeNames have made.
func (d *Driver) forgetNetwork(allocID string) error {
	if err := dropNamespace(d.namespace(allocID)); err != nil {
		return err
	}
	if err := os.RemoveAll(d.networkDir(allocID)); err != nil {
		return errdefs.FailedPreconditionf("remove the directory of the network: %w", err)
	}
	return nil
}

// create creates the container, and gets its image if the daemon does not have it.
func (s *sandbox) create(ctx context.Context) error {
	image, get := s.agent.InfraImage, s.pull
	if image == "" {
		own, err := ownPauseImage()
		if err != nil {
			return err
		}
		image, get = own.name, func(ctx context.Context) error { return s.load(ctx, own) }
	}
	for fetched := false; ; fetched = true {
		limited, cancel := context.WithTimeout(ctx, workLimit)
		r, err := s.daemon.api.Load().ContainerCreate(limited, s.spec(image))
		cancel()
		if err == nil {
			s.created = r.ID
			return nil
		}
		err = s.daemon.failed(ctx, err, "create container %s", s.name)
		if !errdefs.IsNotFound(err) || fetched {
			return err
		}
		if err := get(ctx); err != nil {
			return err
		}
	}
}

// spec returns the spec of a container without rights. It ends at once when it is stopped:
// otherwise a daemon without live-restore would wait for it when it stops itself.
func (s *sandbox) spec(image string) client.ContainerCreateOptions {
	return client.ContainerCreateOptions{
		Name: s.name,
		Config: &container.Config{
			Image: image, Hostname: s.req.Hostname, StopSignal: "SIGKILL",
			Labels: map[string]string{labelOwner: s.owner, labelAlloc: s.req.AllocID, labelSandbox: s.req.AllocID},
		},
		HostConfig: &container.HostConfig{
			NetworkMode: "none", ReadonlyRootfs: true, CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges"},
			LogConfig: container.LogConfig{Type: "none"},
		},
	}
}

func (s *sandbox) pull(ctx context.Context) error {
	c := taskConfig{Image: s.agent.InfraImage, ImagePullTimeout: s.agent.InfraImagePullTimeout}
	if err := s.daemon.pull(ctx, s.agent, c, &driver.TaskConfig{ID: s.req.AllocID}); err != nil {
		return fmt.Errorf("get infra_image of the agent's plugin \"docker\" config: %w", err)
	}
	return nil
}

func (s *sandbox) load(ctx context.Context, image pauseImage) error {
	limited, cancel := context.WithTimeout(ctx, workLimit)
	defer cancel()
	r, err := s.daemon.api.Load().ImageLoad(limited, bytes.NewReader(image.archive), client.ImageLoadWithQuiet(true))
	if err != nil {
		return s.daemon.failed(ctx, err, "load image %s", image.name)
	}
	defer r.Close()
	if err := loaded(r); err != nil {
		return s.daemon.failed(ctx, err, "load image %s", image.name)
	}
	return nil
}

func (s *sandbox) start(ctx context.Context, c container.InspectResponse) error {
	limited, cancel := context.WithTimeout(ctx, workLimit)
	defer cancel()
	_, err := s.daemon.api.Load().ContainerStart(limited, c.ID, client.ContainerStartOptions{})
	return s.daemon.failed(ctx, err, "start container %s of image %s", s.name, c.Config.Image)
}

// undo removes the container and the mounts of a failed call.
func (s *sandbox) undo() {
	if s.created == "" {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, workLimit)
	defer cancel()
	if err := errors.Join(s.daemon.remove(ctx, s.created), s.forgetNetwork(s.req.AllocID)); err != nil {
		s.log.Warn("cannot remove the remains of a failed network", "alloc_id", s.req.AllocID, "container", s.created, "error", err)
	}
}

// DestroyNetwork implements driver.Networker. The sandbox is found by its labels, in the
// currently configured daemon and in the daemon that made it.
func (d *Driver) DestroyNetwork(ctx context.Context, allocID string, network *driver.NetworkIsolation) error {
	_, x, err := d.forNetwork(allocID)
	if err != nil {
		return err
	}
	daemons := []*daemon{x}
	if network != nil {
		if endpoint := network.Labels[sandboxEndpoint]; endpoint != "" && endpoint != x.endpoint {
			other, err := d.daemonOf(endpoint)
			if err != nil {
				return err
			}
			daemons = append(daemons, other)
		}
	}
	for _, x := range daemons {
		if err := x.removeSandbox(ctx, d.owner, allocID); err != nil {
			return errdefs.New(errdefs.ClassOf(err), fmt.Errorf("remove the network namespace of alloc %s: %w", allocID, err))
		}
	}
	if err := d.forgetNetwork(allocID); err != nil {
		return errdefs.New(errdefs.ClassOf(err), fmt.Errorf("remove the network namespace of alloc %s: %w", allocID, err))
	}
	return nil
}

func (d *daemon) removeSandbox(ctx context.Context, owner, allocID string) error {
	list, err := d.ours(ctx, owner, labelAlloc+"="+allocID)
	if err != nil {
		return err
	}
	for _, c := range list {
		if c.Labels[labelTask] != "" && c.State == container.StateRunning {
			return errdefs.FailedPreconditionf("task %q still runs in it; stop the task first", c.Labels[labelTask])
		}
	}
	for _, c := range list {
		if c.Labels[labelSandbox] == "" {
			continue
		}
		if err := d.remove(ctx, c.ID); err != nil {
			return err
		}
	}
	return nil
}
