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

// Change is what a task must do because its files have changed. With a restart the rest is
// unnecessary; otherwise each of Signals is sent and each of Scripts is run.
type Change struct {
	Mode    string // the strongest: restart, then signal, then script
	Signal  string // the first of Signals
	Signals []string
	Scripts []*model.ChangeScript

	EnvChanged bool     // the task's environment has changed: see Runner.Env
	Files      []string // destinations that changed, as the job file names them
}

var strength = []string{ModeNoop, ModeScript, ModeSignal, ModeRestart}

func (c Change) empty() bool { return c.Mode == "" || c.Mode == ModeNoop }

// changeOf returns what a change of one template requires.
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

// and combines two changes.
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

// settled removes what a restart makes unnecessary.
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
