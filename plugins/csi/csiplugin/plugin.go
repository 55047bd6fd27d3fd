// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package csiplugin is the storage plugin csi: it speaks the Container Storage Interface
// (CSI 1.x) to the socket of one storage driver, and sdk/volume/v1 to the host. It owns
// what makes drivers of others bearable: retries as the table of errors of CSI wants them,
// at most one call for a volume at a time, also after a caller has given up, answers that
// are checked before they are used, texts without secrets, and records of what is on this
// machine. It does not own the driver's process, nor who may use a volume.
package csiplugin

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
	"github.com/drover-project/drover/sdk/schema"
	volume "github.com/drover-project/drover/sdk/volume/v1"
)

// Version is the version of the plugin.
const Version = "0.1.0"

// Name is the name under which a plugin is served that is no instance. Instances are called by
// the ids of drivers, which it should not be.
const Name = "csi-adapter"

// Main runs the plugin.
func Main() error {
	dir, err := filepath.Abs(".")
	if err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	return plugin.Serve(plugin.Info{Name: "csi", Version: Version}, volume.Service(New(dir)))
}

// settings is the plugin's config.
type settings struct {
	Endpoint     string `json:"endpoint"`
	Controller   bool   `json:"controller"`
	Node         bool   `json:"node"`
	HostDir      string `json:"host_dir"`
	DriverDir    string `json:"driver_dir"`
	CallTimeout  string `json:"call_timeout"`
	VerifyMounts bool   `json:"verify_mounts"`

	callTimeout time.Duration
}

// Plugin is the storage plugin.
type Plugin struct {
	records records
	lanes   *lanes
	pace    pace
	sent    sent // to the driver

	mu      sync.Mutex
	set     settings
	conn    *conn             // nil before SetConfig
	changed chan struct{}     // closed when set changes
	known   known             // of the driver, as it was last asked
	made    map[string]string // names of volumes that were made, by id; at most maxMade
}

var _ volume.Full = (*Plugin)(nil)

// New returns a plugin that keeps its records in dir, an absolute path.
func New(dir string) *Plugin {
	return &Plugin{
		records: records{dir: filepath.Join(dir, "volumes")}, lanes: newLanes(), pace: standardPace, changed: make(chan struct{}), made: map[string]string{},
	}
}

// Info implements volume.Volume.
func (p *Plugin) Info() volume.Info {
	return volume.Info{Name: Name, ConfigSchema: schema.Schema{Attributes: []schema.Attribute{
		{Name: "endpoint", Type: schema.String, Required: true, Description: "the driver's socket, such as unix:///run/csi/csi.sock"},
		{Name: "controller", Type: schema.Bool, Default: true, Description: "use the driver's controller service, if it has one"},
		{Name: "node", Type: schema.Bool, Default: true, Description: "use the driver's node service, if it has one"},
		{Name: "host_dir", Type: schema.String, Default: "", Description: "the directory of this machine, with all paths of volumes, that the driver sees as driver_dir"},
		{Name: "driver_dir", Type: schema.String, Default: "", Description: "where a driver with a file system of its own sees host_dir"},
		{Name: "call_timeout", Type: schema.Duration, Default: "10m", Description: "after which a call to the driver is given up, and another one for the volume may begin"},
		{Name: "verify_mounts", Type: schema.Bool, Default: true, Description: "believe that a volume is published only if something is mounted at its path"},
	}}}
}

// SetConfig implements volume.Volume. Calls that are in progress end with the old endpoint.
func (p *Plugin) SetConfig(_ context.Context, body []byte) error {
	var s settings
	if err := json.Unmarshal(body, &s); err != nil {
		return errdefs.InvalidArgumentf("decode the config of csi: %w", err)
	}
	path, ok := strings.CutPrefix(s.Endpoint, "unix:")
	if path = strings.TrimPrefix(path, "//"); !ok {
		path = s.Endpoint
	}
	if !filepath.IsAbs(path) {
		return errdefs.InvalidArgumentf("endpoint %q is not the absolute path of a socket; write unix:///run/csi/csi.sock", s.Endpoint)
	}
	if (s.HostDir == "") != (s.DriverDir == "") {
		return errdefs.InvalidArgumentf("host_dir and driver_dir say together how the driver sees paths; set both or neither")
	}
	for _, dir := range []string{s.HostDir, s.DriverDir} {
		if dir != "" && (!filepath.IsAbs(dir) || filepath.Clean(dir) != dir) {
			return errdefs.InvalidArgumentf("host_dir and driver_dir must be absolute paths in their shortest form: %q is not", dir)
		}
	}
	var err error
	if s.callTimeout, err = time.ParseDuration(s.CallTimeout); err != nil || s.callTimeout < time.Second {
		return errdefs.InvalidArgumentf("call_timeout %q is not a time of at least 1s", s.CallTimeout)
	}
	if !s.Controller && !s.Node {
		return errdefs.InvalidArgumentf("controller and node are both false, so that there is nothing to do")
	}
	fresh, err := dial(path)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn != nil && p.conn.path == path {
		fresh.close()
		fresh = p.conn
	} else {
		if p.conn != nil {
			p.conn.retire()
		}
		p.known = known{problem: "the driver was not asked yet"}
	}
	p.set, p.conn = s, fresh
	close(p.changed)
	p.changed = make(chan struct{})
	return nil
}

// current returns the settings and the connection.
func (p *Plugin) current() (settings, *conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn == nil {
		return settings{}, nil, errdefs.FailedPreconditionf("the csi plugin is not configured; it needs the endpoint of a driver")
	}
	return p.set, p.conn, nil
}

// knows returns what is known of the driver.
func (p *Plugin) knows() known {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known
}

// toDriver returns a path of this machine as the driver sees it.
func (s *settings) toDriver(path string) (string, error) {
	if s.HostDir == "" || path == "" {
		return path, nil
	}
	rel, err := filepath.Rel(s.HostDir, path)
	if err != nil || !filepath.IsLocal(rel) {
		return "", errdefs.InvalidArgumentf("the driver cannot see %s, which is not below host_dir %s", path, s.HostDir)
	}
	return filepath.Join(s.DriverDir, rel), nil
}
