// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csilocal

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
)

// Main runs the driver until it receives SIGTERM or SIGINT.
func Main() error {
	flags := flag.NewFlagSet("csi-local", flag.ContinueOnError)
	endpoint := flags.String("endpoint", os.Getenv("CSI_ENDPOINT"), "the socket to listen on, such as unix:///run/csi/csi.sock; default $CSI_ENDPOINT")
	dir := flags.String("data-dir", "/var/lib/drover-csi-local", "the `directory` of the volumes; it must be the same after each start")
	node := flags.String("node-id", "", "the `id` of this node; default the machine's host name")
	most := flags.Int64("max-volumes", 0, "the largest number of volumes in use on this node; 0 means no limit")
	if err := flags.Parse(os.Args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return fmt.Errorf("csi-local: %w", err)
	}
	if *node == "" {
		var err error
		if *node, err = os.Hostname(); err != nil {
			return fmt.Errorf("csi-local: tell the name of this machine; give -node-id: %w", err)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	d, err := Open(Config{Dir: *dir, NodeID: *node, MaxVolumes: *most})
	if err != nil {
		return fmt.Errorf("csi-local: %w", err)
	}
	defer d.Close()
	return d.Serve(ctx, *endpoint)
}

// Serve serves the driver on a socket until ctx ends. Volumes stay where they are.
func (d *Driver) Serve(ctx context.Context, endpoint string) error {
	path, ok := strings.CutPrefix(endpoint, "unix:")
	if path = strings.TrimPrefix(path, "//"); !ok {
		path = endpoint
	}
	if !filepath.IsAbs(path) {
		return fmt.Errorf("csi-local: endpoint %q is not the absolute path of a socket; set CSI_ENDPOINT or -endpoint", endpoint)
	}
	// What another process of the driver has left. The lock of the directory says that none
	// runs any more.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("csi-local: remove the old socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("csi-local: listen: %w", err)
	}
	s := grpc.NewServer()
	csi.RegisterIdentityServer(s, d)
	csi.RegisterControllerServer(s, d)
	csi.RegisterNodeServer(s, d)
	stop := context.AfterFunc(ctx, s.GracefulStop)
	defer stop()
	if err := s.Serve(l); err != nil {
		return fmt.Errorf("csi-local: serve: %w", err)
	}
	return nil
}
