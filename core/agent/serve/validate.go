// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package serve

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Drivers finds the node's task drivers by name.
type Drivers interface {
	Driver(name string) (driver.Driver, error)
}

// validateLimit limits an answer about the configs of a job: somebody waits for it. Servers
// wait for two seconds.
const validateLimit = 1500 * time.Millisecond

// validateConfigs makes a driver check configs. It answers within validateLimit even if the
// driver does not.
func (s *Server) validateConfigs(ctx context.Context, q rpc.ValidateRequest, send func([]byte) error) error {
	if len(q.Configs) > rpc.MaxValidated {
		return errdefs.InvalidArgumentf("%d configs are to be validated at once; at most %d can be", len(q.Configs), rpc.MaxValidated)
	}
	if s.cfg.Drivers == nil {
		return errdefs.Unimplementedf("this node has no host of plugins")
	}
	d, err := s.cfg.Drivers.Driver(q.Driver)
	if err != nil {
		return err
	}
	v, ok := d.(driver.Validator)
	if !ok {
		return errdefs.Unimplementedf("driver %q does not validate configs", q.Driver)
	}
	ctx, cancel := context.WithTimeout(ctx, validateLimit)
	defer cancel()
	out := make([]rpc.ValidateAnswer, len(q.Configs))
	for i, config := range q.Configs {
		if out[i].Findings, err = validateConfig(ctx, v, d.Info(), config); err != nil {
			out[i].Unknown = err.Error()
		}
	}
	return sendJSON(send, out)
}

// validateConfig returns what the driver finds in the known part of a config.
func validateConfig(ctx context.Context, v driver.Validator, info driver.Info, config map[string]any) (out []rpc.ConfigFinding, err error) {
	if ctx.Err() != nil {
		return nil, errdefs.DeadlineExceededf("the driver has not answered within %s", validateLimit)
	}
	known, open, err := info.TaskConfigSchema.ApplyKnown(config)
	if err != nil {
		return nil, err // another version of the driver has accepted it
	}
	body, err := json.Marshal(known)
	if err != nil {
		return nil, errdefs.InvalidArgumentf("encode a config: %w", err)
	}
	found, err := v.ValidateTask(ctx, &driver.TaskDraft{DriverConfig: body})
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		if !open.Concern(f.Path) {
			out = append(out, rpc.ConfigFinding{Path: f.Path, Text: strings.TrimPrefix(f.String(), f.Path+": "), Error: f.Severity == driver.SeverityError})
		}
	}
	return out, nil
}
