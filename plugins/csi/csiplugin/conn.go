// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csiplugin

import (
	"fmt"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

// maxAnswer is the largest answer of a driver in bytes: some list all volumes at once.
const maxAnswer = 64 << 20

// connectLimit is how long a driver may take to answer a connection, which a busy machine
// delays. Calls wait for it as long as their own time allows.
const connectLimit = 10 * time.Second

// conn is the connection to a driver's socket. It connects when it is used, and again after
// the driver was started anew.
type conn struct {
	path       string
	grpc       *grpc.ClientConn
	identity   csi.IdentityClient
	controller csi.ControllerClient
	node       csi.NodeClient

	mu      sync.Mutex
	calls   int
	retired bool
}

func dial(path string) (*conn, error) {
	// A driver that was started again is to be found soon.
	again := grpc.ConnectParams{
		Backoff: backoff.Config{BaseDelay: standardPace.first, Multiplier: 1.6, Jitter: 0.2, MaxDelay: standardPace.last},
		// Without it, the time to answer would be the backoff, which is short.
		MinConnectTimeout: connectLimit,
	}
	c, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(again),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)), grpc.WithDisableServiceConfig())
	if err != nil {
		return nil, fmt.Errorf("connect to the driver at %s: %w", path, err)
	}
	return &conn{path: path, grpc: c, identity: csi.NewIdentityClient(c), controller: csi.NewControllerClient(c), node: csi.NewNodeClient(c)}, nil
}

// begin and end count calls, so that a connection is closed after its last call.
func (c *conn) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
}

func (c *conn) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls--; c.calls == 0 && c.retired {
		c.close()
	}
}

// retire closes the connection once no call uses it.
func (c *conn) retire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retired = true; c.calls == 0 {
		c.close()
	}
}

func (c *conn) close() { _ = c.grpc.Close() } // a second close is its only error
