// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import "google.golang.org/grpc"

// Dials are the connections of a process.
type Dials struct{ dials }

// Option has connections noted.
func (d *Dials) Option() grpc.DialOption { return d.option() }

// Close closes them.
func (d *Dials) Close() { d.close() }
