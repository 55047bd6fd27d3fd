// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/core/driverschema"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// schemaPause is how long the agent sends no schema after a failure.
const schemaPause = 10 * time.Second

// schemas holds the schemas of the node's drivers. Registrations contain hashes; a
// body is sent when a lease requests it.
type schemas struct {
	mu      sync.Mutex
	bodies  map[string][]byte // by hash
	refused map[string]bool   // by hash: servers will not have it, or it cannot be written
	notTill time.Time
}

// name sets the hashes of the drivers' schemas in the node. Servers do not check jobs
// against the schema of a driver that cannot be published.
func (s *schemas) name(n *model.Node, prints []pluginhost.DriverFingerprint, warn func(driver string, err error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bodies := map[string][]byte{}
	for _, p := range prints {
		info := n.Drivers[p.Name]
		if info == nil {
			continue
		}
		info.PluginVersion = p.PluginVersion
		body := bodyOf(p)
		hash, data, err := body.Encode()
		if err != nil {
			if !s.refused[p.Name] {
				warn(p.Name, err)
			}
			s.refuse(p.Name)
			continue
		}
		info.SchemaHash, bodies[hash] = hash, data
	}
	s.bodies = bodies
}

func bodyOf(p pluginhost.DriverFingerprint) *driverschema.Body {
	c := p.Capabilities
	out := &driverschema.Body{Driver: p.Name, Task: p.TaskConfigSchema, Capabilities: driverschema.Capabilities{
		SendSignals: c.SendSignals, Exec: c.Exec, MountConfigs: c.MountConfigs, DisableLogCollection: c.DisableLogCollection, Ignores: c.Ignores,
		Validates: slices.Contains(p.Features, driver.FeatureValidateTask),
	}}
	out.Capabilities.NetworkModes = networkModes(p)
	return out
}

// refuse remembers a schema that is not accepted, so that it is logged and tried only
// once.
func (s *schemas) refuse(key string) {
	if s.refused == nil {
		s.refused = map[string]bool{}
	}
	s.refused[key] = true
}

// Wanted implements session.Schemas: it returns the bodies of the hashes that may be sent now.
func (s *schemas) Wanted(hashes []string, now time.Time) (bodies [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Before(s.notTill) {
		return nil
	}
	for _, hash := range hashes {
		if data := s.bodies[hash]; data != nil && !s.refused[hash] {
			bodies = append(bodies, data)
		}
	}
	return bodies
}

// Sent implements session.Schemas.
func (s *schemas) Sent(bodies [][]byte, err error, now time.Time) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notTill = now.Add(schemaPause)
	if errdefs.IsInvalidArgument(err) {
		for _, data := range bodies {
			s.refuse(driverschema.Hash(data))
		}
	}
}
