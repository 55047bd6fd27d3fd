// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/moby/moby/client"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Driver is the task driver docker.
type Driver struct {
	log   hclog.Logger
	dir   string // directory of the files that survive this process
	owner string // owner label of this node's containers
	ctx   context.Context
	stop  context.CancelFunc
	work  sync.WaitGroup

	events   *broadcast
	presence *presence
	stages   *stages

	mu      sync.Mutex
	config  agentConfig
	current *daemon            // daemon for new tasks; nil before the first SetConfig
	daemons map[string]*daemon // by endpoint
	known   map[string]*task
	// Neither of these is an orphan: starting holds the tasks whose start is in
	// progress, claimed the tasks that the agent has asked for.
	starting map[string]bool
	claimed  map[string]bool
	node     string        // id of this node; "" before its first task
	changed  chan struct{} // closed and replaced when the config changes
}

// New returns the driver. dir holds the data that must survive the process: the owner id of
// this node's containers, the list of images that the driver has pulled, and the positions
// in the logs.
func New(dir string, log hclog.Logger) (*Driver, error) {
	if err := os.MkdirAll(filepath.Join(dir, cursorDir), 0o700); err != nil {
		return nil, errdefs.FailedPreconditionf("make the state directory of the docker driver: %w", err)
	}
	owner, err := ownerOf(dir)
	if err != nil {
		return nil, err
	}
	node, err := os.ReadFile(filepath.Join(dir, nodeFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errdefs.FailedPreconditionf("read the id of this node: %w", err)
	}
	presence, err := openPresence(dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	d := &Driver{
		log: log, dir: dir, owner: owner, ctx: ctx, stop: cancel, events: newBroadcast(), presence: presence, stages: newStages(dir), daemons: map[string]*daemon{},
		known: map[string]*task{}, starting: map[string]bool{}, claimed: map[string]bool{}, changed: make(chan struct{}),
		node: string(node),
	}
	return d, nil
}

// nodeFile stores the id of the node, which the driver learns from its tasks.
const nodeFile = "node"

// learnNode stores the id of this node.
func (d *Driver) learnNode(id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if id == d.node {
		return nil
	}
	if err := replaceFile(filepath.Join(d.dir, nodeFile), []byte(id)); err != nil {
		return err
	}
	d.node = id
	return nil
}

// ownerOf returns the owner id of this node's containers. It creates the id if there
// is none: if the directory is lost, the driver owns no containers and removes none.
func ownerOf(dir string) (string, error) {
	path := filepath.Join(dir, "owner")
	body, err := os.ReadFile(path)
	if owner := strings.TrimSpace(string(body)); err == nil && len(owner) >= 16 {
		return owner, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", errdefs.FailedPreconditionf("read the owner id of this node's containers: %w", err)
	}
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		return "", errdefs.Internalf("generate an owner id for this node's containers: %w", err)
	}
	owner := hex.EncodeToString(random)
	return owner, replaceFile(path, []byte(owner+"\n"))
}

// replaceFile writes a file atomically.
func replaceFile(path string, body []byte) error {
	next := path + ".new"
	if err := os.WriteFile(next, body, 0o600); err != nil {
		return errdefs.FailedPreconditionf("write the driver's state: %w", err)
	}
	if err := os.Rename(next, path); err != nil {
		return errdefs.FailedPreconditionf("write the driver's state: %w", err)
	}
	return nil
}

// Close stops the background goroutines. Containers keep running.
func (d *Driver) Close() error {
	d.stop()
	d.work.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	errs := []error{d.presence.close()}
	for _, x := range d.daemons {
		errs = append(errs, x.api.Load().Close())
	}
	return errors.Join(errs...)
}

// Info implements driver.Driver.
func (d *Driver) Info() driver.Info {
	return driver.Info{
		Name: "docker",
		Capabilities: driver.Capabilities{
			SendSignals: true, Exec: true, ExecOptions: []string{driver.ExecUser, driver.ExecDirectory, driver.ExecEnvironment}, FSIsolation: driver.FSIsolationImage, MountConfigs: true,
			NetworkModes: []driver.NetworkMode{driver.NetworkHost, driver.NetworkTask, driver.NetworkNone, driver.NetworkGroup},
		},
		ConfigSchema: agentSchema(), TaskConfigSchema: taskSchema(),
	}
}

// SetConfig implements driver.Driver.
func (d *Driver) SetConfig(_ context.Context, body []byte) error {
	c, err := parseAgentConfig(body)
	if err != nil {
		return err
	}
	api, err := newClient(c)
	if err != nil {
		return err
	}
	endpoint := api.DaemonHost()
	d.mu.Lock()
	defer d.mu.Unlock()
	first := d.current == nil
	switch old := d.daemons[endpoint]; {
	case old == nil:
		if d.current, err = d.newDaemon(api, endpoint); err != nil {
			return err
		}
	case d.config.TLS == c.TLS:
		_ = api.Close() // it has no connections yet
		d.current = old
	default: // running tasks need the new certificates too
		_ = old.api.Swap(api).Close() // requests in progress continue
		d.current = old
	}
	d.config = c
	close(d.changed)
	d.changed = make(chan struct{})
	if first {
		d.work.Go(func() { d.housekeep(d.ctx) })
	}
	return nil
}

// newDaemon starts following a daemon. The caller holds d.mu.
func (d *Driver) newDaemon(api *client.Client, endpoint string) (*daemon, error) {
	imgs, err := openImages(d.dir, endpoint)
	if err != nil {
		return nil, err
	}
	log := d.log.With("endpoint", endpoint)
	x := &daemon{
		endpoint: endpoint, log: log, events: d.events, images: imgs, pulls: newPulls(),
		byContainer: map[string]*task{}, kick: make(chan struct{}, 1),
	}
	x.api.Store(api)
	d.daemons[endpoint] = x
	d.work.Go(func() { x.follow(d.ctx) })
	return x, nil
}

// now returns the current config and the daemon for new tasks.
func (d *Driver) now() (agentConfig, *daemon, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.config, d.current, d.changed
}

// of returns a task by its id.
func (d *Driver) of(id string) (*task, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.known[id]
	if t == nil {
		return nil, errdefs.NotFoundf("task %q is unknown to this driver; start or recover it first", id)
	}
	return t, nil
}

// TaskEvents implements driver.Driver.
func (d *Driver) TaskEvents(ctx context.Context) (<-chan driver.TaskEvent, error) {
	return d.events.subscribe(ctx), nil
}

// broadcast sends task events to all listeners.
type broadcast struct {
	mu   sync.Mutex
	subs map[chan driver.TaskEvent]bool
}

func newBroadcast() *broadcast { return &broadcast{subs: map[chan driver.TaskEvent]bool{}} }

// eventBuffer is the number of events that are queued for a slow listener before
// events are dropped.
const eventBuffer = 64

func (b *broadcast) subscribe(ctx context.Context) <-chan driver.TaskEvent {
	ch := make(chan driver.TaskEvent, eventBuffer)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subs[ch] = true
	context.AfterFunc(ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.subs, ch)
		close(ch)
	})
	return ch
}

func (b *broadcast) tell(taskID, message string, annotations map[string]string) {
	b.send(driver.TaskEvent{TaskID: taskID, Time: time.Now(), Message: message, Annotations: annotations})
}

// progress reports the progress of a task's start.
func (b *broadcast) progress(taskID string, p driver.Progress) {
	b.send(driver.TaskEvent{TaskID: taskID, Time: time.Now(), Progress: &p})
}

func (b *broadcast) send(e driver.TaskEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ch := range b.subs {
		select {
		case ch <- e:
		default:
		}
	}
}

func wrapTask(id string, err error) error {
	return errdefs.New(errdefs.ClassOf(err), fmt.Errorf("task %q: %w", id, err))
}
