// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugintest

import (
	"context"
	"os/exec"
	"testing"

	"google.golang.org/grpc"

	"github.com/drover-project/drover/sdk/plugin"
)

// Subject is a plugin of the kind P under test, and how it is made and reached.
type Subject[P any] struct {
	// New returns a plugin in the state of a freshly started process. If New is nil, the
	// plugin is reached only as a process.
	New func(t *testing.T) P
	// Binary is the path of a built plugin, with its arguments, environment and working
	// directory. If Binary is empty, the plugin is not reached as a process.
	Binary string
	Args   []string
	Env    []string
	Dir    string
	// Name selects one of the plugins in the process; "" means the first.
	Name string

	// Service and Connect are the kind's own, and NameOf returns the name of a plugin.
	Service func(P) plugin.Service
	Connect func(context.Context, grpc.ClientConnInterface) ([]P, error)
	NameOf  func(P) string
}

// A Way reaches a plugin. Its functions fail t if the plugin cannot be reached.
type Way[P any] struct {
	// InProcess: the plugin is called without gRPC. Process: it is a process of its own.
	InProcess, Process bool
	// Connect returns a fresh plugin, and a function that kills its process, or what
	// simulates it, without a shutdown.
	Connect func(t *testing.T) (p P, die func())
}

// Ways calls suite as a subtest for each way in which s can be reached: in process, over
// gRPC, and as a process.
func (s Subject[P]) Ways(t *testing.T, suite func(t *testing.T, way Way[P])) {
	t.Helper()
	if s.New == nil && s.Binary == "" {
		t.Fatal("set New, Binary or both: there is no plugin to check")
	}
	if s.New != nil {
		t.Run("in process", func(t *testing.T) {
			suite(t, Way[P]{InProcess: true, Connect: func(t *testing.T) (P, func()) { return s.New(t), func() {} }})
		})
		t.Run("over gRPC", func(t *testing.T) { suite(t, Way[P]{Connect: s.serve}) })
	}
	if s.Binary != "" {
		t.Run("as a plugin process", func(t *testing.T) { suite(t, Way[P]{Process: true, Connect: s.launch}) })
	}
}

func (s Subject[P]) serve(t *testing.T) (P, func()) {
	t.Helper()
	conn, die := Serve(t, s.Service(s.New(t)))
	all, err := s.Connect(t.Context(), conn)
	if err != nil || len(all) != 1 {
		t.Fatalf("connect: %d plugins, %v", len(all), err)
	}
	return all[0], die
}

// launch starts the plugin as a host does. The returned function kills it with SIGKILL.
func (s Subject[P]) launch(t *testing.T) (P, func()) {
	t.Helper()
	cmd := exec.Command(s.Binary, s.Args...)
	cmd.Env, cmd.Dir = s.Env, s.Dir
	conn, die := Launch(t, cmd)
	all, err := s.Connect(t.Context(), conn)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	for _, p := range all {
		if s.Name == "" || s.NameOf(p) == s.Name {
			return p, die
		}
	}
	t.Fatalf("%s has no plugin %q of this kind", s.Binary, s.Name)
	panic("unreachable")
}
