// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/hashicorp/go-hclog"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	// callLimit is the time limit of requests that the daemon answers from memory,
	// workLimit of those for which it works: create, start, remove.
	callLimit = 30 * time.Second
	workLimit = 2 * time.Minute
)

// daemon is a Docker daemon and the tasks that run in it.
type daemon struct {
	endpoint string
	// api is replaced when the agent's config has other certificates. agreed is the
	// client that has completed the API version negotiation.
	api    atomic.Pointer[client.Client]
	agreed atomic.Pointer[client.Client]
	log    hclog.Logger
	events *broadcast
	images *images
	pulls  *pulls

	mu          sync.Mutex
	byContainer map[string]*task
	facts       facts
	// kick receives a signal when the daemon may have become reachable or unreachable.
	kick chan struct{}
}

// facts describe what a daemon supports.
type facts struct {
	known bool
	cpus  int
	os    string
	// runtimes are the installed container runtimes. cdi reports whether the daemon
	// resolves CDI device names.
	runtimes []string
	cdi      bool
}

func factsOf(i system.Info) facts {
	return facts{known: true, cpus: i.NCPU, os: i.OSType, runtimes: slices.Sorted(maps.Keys(i.Runtimes)), cdi: len(i.CDISpecDirs) > 0}
}

// userAgent identifies us to the daemon.
var userAgent = "drover-driver-docker/" + Version

// newClient returns a client without connecting: the daemon may be down.
func newClient(c agentConfig) (*client.Client, error) {
	opts := []client.Opt{client.FromEnv, client.WithUserAgent(userAgent)}
	if c.Endpoint != "" {
		opts = append(opts, client.WithHost(c.Endpoint))
	}
	if c.TLS.Cert != "" || c.TLS.CA != "" {
		opts = append(opts, client.WithTLSClientConfig(c.TLS.CA, c.TLS.Cert, c.TLS.Key))
	}
	api, err := client.New(opts...)
	if err != nil {
		return nil, errdefs.InvalidArgumentf("endpoint %q: %w; correct endpoint and tls in the agent's plugin \"docker\" config", c.Endpoint, err)
	}
	return api, nil
}

// failed converts an error of the daemon to a classed error for our callers. ctx is
// the caller's context: if it is still valid, an exceeded deadline is our own limit,
// so the daemon is unavailable.
func (d *daemon) failed(ctx context.Context, err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	what := fmt.Sprintf(format, args...)
	if gone := ctx.Err(); gone != nil {
		return fmt.Errorf("%s: %w", what, gone)
	}
	if class := classOf(err); class == errdefs.Unavailable {
		d.wake()
		return errdefs.WithReason(errdefs.Unavailablef("%s: the Docker daemon at %s does not answer; see whether it runs: %w", what, d.endpoint, err), "daemon_unavailable")
	} else if class != errdefs.Internal {
		return errdefs.New(class, fmt.Errorf("%s: %w", what, err))
	}
	return errdefs.Internalf("%s: %w", what, err)
}

func classOf(err error) errdefs.Class {
	var netErr net.Error
	var said *jsonstream.Error
	var refused *statusError
	if errors.As(err, &said) {
		return classOfStatus(said.Code)
	}
	if errors.As(err, &refused) {
		return classOfStatus(refused.code)
	}
	switch {
	case cerrdefs.IsNotFound(err):
		return errdefs.NotFound
	case cerrdefs.IsInvalidArgument(err):
		return errdefs.InvalidArgument
	case cerrdefs.IsConflict(err), cerrdefs.IsAlreadyExists(err):
		return errdefs.Conflict
	case cerrdefs.IsUnauthorized(err), cerrdefs.IsPermissionDenied(err):
		return errdefs.PermissionDenied
	case cerrdefs.IsNotImplemented(err):
		return errdefs.Unimplemented
	case client.IsErrConnectionFailed(err), errdefs.IsUnavailable(err), cerrdefs.IsUnavailable(err), errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), errors.As(err, &netErr):
		return errdefs.Unavailable
	}
	return errdefs.Internal
}

// classOfStatus returns the error class of an HTTP status. Errors within a stream
// carry such a status.
func classOfStatus(code int) errdefs.Class {
	switch code {
	case http.StatusNotFound:
		return errdefs.NotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		return errdefs.PermissionDenied
	case http.StatusBadRequest:
		return errdefs.InvalidArgument
	case http.StatusConflict:
		return errdefs.Conflict
	case http.StatusNotImplemented:
		return errdefs.Unimplemented
	case http.StatusServiceUnavailable:
		return errdefs.Unavailable
	}
	return errdefs.Internal
}

// wake makes the fingerprint be taken again soon.
func (d *daemon) wake() {
	select {
	case d.kick <- struct{}{}:
	default:
	}
}

// inspect returns the state of a container.
func (d *daemon) inspect(ctx context.Context, id string) (container.InspectResponse, error) {
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	r, err := d.api.Load().ContainerInspect(limited, id, client.ContainerInspectOptions{})
	if err == nil && (r.Container.State == nil || r.Container.Config == nil) {
		return r.Container, errdefs.Internalf("inspect container %s: the Docker daemon's answer lacks its state", short(id))
	}
	return r.Container, d.failed(ctx, err, "inspect container %s", short(id))
}

// remove removes a container, running or not, and its anonymous volumes. It succeeds
// if the container does not exist.
func (d *daemon) remove(ctx context.Context, id string) error {
	limited, cancel := context.WithTimeout(ctx, workLimit)
	defer cancel()
	_, err := d.api.Load().ContainerRemove(limited, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if err = d.failed(ctx, err, "remove container %s", short(id)); errdefs.IsNotFound(err) {
		return nil
	}
	if errdefs.IsConflict(err) { // the removal is already in progress
		return d.awaitGone(ctx, id)
	}
	return err
}

// awaitGone waits until a container whose removal is in progress is gone.
func (d *daemon) awaitGone(ctx context.Context, id string) error {
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	for {
		_, err := d.inspect(limited, id)
		if errdefs.IsNotFound(err) {
			return nil
		}
		if !pause(limited, 100*time.Millisecond) {
			return errdefs.Unavailablef("remove container %s: the Docker daemon reports that it is being removed, but it is still there", short(id))
		}
	}
}

// kill sends a signal to the container's main process. An empty signal means
// SIGKILL.
func (d *daemon) kill(ctx context.Context, id, signal string) error {
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err := d.api.Load().ContainerKill(limited, id, client.ContainerKillOptions{Signal: signal})
	return d.failed(ctx, err, "send %s to container %s", signal, short(id))
}

// learn returns the facts of the daemon. It asks the daemon once.
func (d *daemon) learn(ctx context.Context) (facts, error) {
	d.mu.Lock()
	known := d.facts
	d.mu.Unlock()
	if known.known {
		return known, nil
	}
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	info, err := d.api.Load().Info(limited, client.InfoOptions{})
	if err != nil {
		return facts{}, d.failed(ctx, err, "read the properties of the Docker daemon")
	}
	f := factsOf(info.Info)
	d.mu.Lock()
	d.facts = f
	d.mu.Unlock()
	return f, nil
}

// forget clears the facts, since a daemon that was unreachable may have been
// replaced.
func (d *daemon) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.facts = facts{}
}

func (d *daemon) adopt(t *task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.byContainer[t.state.Container] = t
}

func (d *daemon) disown(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.byContainer, id)
}

func (d *daemon) task(container string) *task {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.byContainer[container]
}

func (d *daemon) tasks() []*task {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]*task, 0, len(d.byContainer))
	for _, t := range d.byContainer {
		out = append(out, t)
	}
	return out
}

// short returns the short form of an id, as Docker prints it.
func short(id string) string { return id[:min(12, len(id))] }

// pause waits for d. It returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
