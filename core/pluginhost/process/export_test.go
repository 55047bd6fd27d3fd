// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
)

// Tail is what is kept of a process's standard error.
type Tail struct{ tail }

// LastWords are quoted in the error about the end of the process.
func (t *Tail) LastWords() string { return t.lastWords() }

// Dials are the connections of a process.
type Dials struct{ dials }

// Option has connections noted.
func (d *Dials) Option() grpc.DialOption { return d.option() }

// Close closes them.
func (d *Dials) Close() { d.close() }

// NewSayings returns the function that makes the loggers of plugins' processes.
func NewSayings() func(plugin string, log hclog.Logger) hclog.Logger { return (&sayings{}).next }

// Remembered is the number of lines that are remembered of a logger's plugin.
func Remembered(log hclog.Logger) int { return len(log.(*onceLogger).saying.last) }

// NewStderrLogger is the logger that go-plugin gets.
func NewStderrLogger(log hclog.Logger) hclog.Logger { return &stderrLogger{Logger: log} }

// Killed tells the logger that the host has killed the process.
func Killed(log hclog.Logger) { log.(*stderrLogger).killed.Store(true) }

// KnownSizes are the options that explain messages that are too large.
func KnownSizes() []grpc.DialOption { return knownSizes() }
