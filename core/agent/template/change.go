// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template

import (
	"slices"

	"github.com/drover-project/drover/core/model"
)

// Change modes of templates.
const (
	ModeNoop    = "noop"
	ModeScript  = "script"
	ModeSignal  = "signal"
	ModeRestart = "restart"
)

// Change says what a task must do because files of it changed. A restart is all
// that is needed; else each of Signals is sent and each of Scripts is run.
type Change struct {
	Mode    string // the strongest: restart, then signal, then script
	Signal  string // the first of Signals
	Signals []string
	Scripts []*model.ChangeScript

	EnvChanged bool     // the task's environment is another: see Runner.Env
	Files      []string // destinations that changed, as the job file names them
}

var strength = []string{ModeNoop, ModeScript, ModeSignal, ModeRestart}

func (c Change) empty() bool { return c.Mode == "" || c.Mode == ModeNoop }

// changeOf is what the change of one template asks for.
func changeOf(spec *model.Template) Change {
	c := Change{Mode: spec.ChangeMode, EnvChanged: spec.Envvars, Files: []string{spec.DestPath}}
	switch spec.ChangeMode {
	case "":
		c.Mode = ModeRestart
	case ModeSignal:
		c.Signals = []string{spec.ChangeSignal}
	case ModeScript:
		c.Scripts = []*model.ChangeScript{spec.ChangeScript}
	}
	return c.settled()
}

// and joins two changes.
func (c Change) and(o Change) Change {
	out := Change{
		Mode: c.Mode, EnvChanged: c.EnvChanged || o.EnvChanged,
		Signals: joined(c.Signals, o.Signals), Scripts: joined(c.Scripts, o.Scripts), Files: joined(c.Files, o.Files),
	}
	if slices.Index(strength, o.Mode) > slices.Index(strength, c.Mode) {
		out.Mode = o.Mode
	}
	return out.settled()
}

func joined[T comparable](a, b []T) []T {
	out := slices.Clone(a)
	for _, v := range b {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// settled drops what a restart makes needless.
func (c Change) settled() Change {
	if c.Mode == ModeRestart {
		c.Signals, c.Scripts = nil, nil
	}
	c.Signal = ""
	if len(c.Signals) > 0 {
		c.Signal = c.Signals[0]
	}
	return c
}
