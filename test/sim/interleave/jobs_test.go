// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package interleave_test

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/drover-project/drover/core/model"
)

// spec is one job: what a user has written, with what changes from version to version.
type spec struct {
	ID         string
	Type       string
	Disconnect string
	Reconcile  string
	Update     string
	Reschedule string
	StopAfter  bool
	count      int
	env        int // another one needs new allocs
	kill       int // another one is an update in place
}

const (
	lostAfter = time.Minute
	stopOn    = 30 * time.Second
	progress  = 5 * time.Minute
)

// jobs draws the jobs of a world.
var jobs = rapid.Custom(func(t *rapid.T) []*spec {
	out := []*spec{{ID: "a"}, {ID: "b"}}[:rapid.IntRange(1, 2).Draw(t, "jobs")]
	for _, s := range out {
		s.Type = rapid.SampledFrom([]string{"service", "service", "batch", "system"}).Draw(t, "type")
		s.Disconnect = rapid.SampledFrom([]string{"lost_after", "lost_after", "none", "lost_after, no replace", "endless", "prevent_reschedule_on_lost", "max_client_disconnect"}).Draw(t, "disconnect")
		s.Reconcile = rapid.SampledFrom([]string{"", model.ReconcileBestScore, model.ReconcileKeepOriginal, model.ReconcileKeepReplacement, model.ReconcileLongestRunning}).Draw(t, "reconcile")
		s.StopAfter = rapid.Bool().Draw(t, "stop_on_client_after")
		if s.Type == "system" {
			s.Update = rapid.SampledFrom([]string{"", "", "rolling", "canary", "canary auto_promote", "auto_revert"}).Draw(t, "update of system")
		}
		if s.Type == "service" {
			s.Update = rapid.SampledFrom([]string{"", "rolling", "canary", "canary auto_promote", "auto_revert", "no deadline"}).Draw(t, "update")
		}
		if s.Type != "system" {
			s.Reschedule = rapid.SampledFrom([]string{"unlimited", "once", "never"}).Draw(t, "reschedule")
		}
		s.count = rapid.IntRange(1, 3).Draw(t, "count")
	}
	return out
})

// job returns the job as it is registered now.
func (s *spec) job() *model.Job {
	tg := &model.TaskGroup{
		Name: "g", Count: s.count, EphemeralDisk: &model.EphemeralDisk{SizeMB: 10},
		Tasks: []*model.Task{{
			Name: "t", Driver: "raw_exec", KillTimeout: time.Duration(1+s.kill) * time.Second, Env: map[string]string{"V": fmt.Sprint(s.env)},
			Resources: &model.Resources{CPU: 100, MemoryMB: 10},
		}},
	}
	s.disconnect(tg)
	s.update(tg)
	switch s.Reschedule {
	case "unlimited":
		tg.ReschedulePolicy = &model.ReschedulePolicy{Unlimited: true, Delay: 5 * time.Second, DelayFunction: "constant"}
	case "once":
		tg.ReschedulePolicy = &model.ReschedulePolicy{Attempts: 1, Interval: time.Hour, Delay: 5 * time.Second, DelayFunction: "constant"}
	}
	return &model.Job{
		Region: "global", ID: s.ID, Name: s.ID, Namespace: "default", Type: s.Type, Priority: 50, Datacenters: []string{"*"}, NodePool: "default",
		TaskGroups: []*model.TaskGroup{tg},
	}
}

func (s *spec) disconnect(tg *model.TaskGroup) {
	no, wait, stop := false, lostAfter, stopOn
	block := &model.DisconnectStrategy{LostAfter: wait, Reconcile: s.Reconcile}
	if s.StopAfter {
		block.StopOnClientAfter = &stop
	}
	switch s.Disconnect {
	case "lost_after":
		tg.Disconnect = block
	case "lost_after, no replace":
		block.Replace = &no
		tg.Disconnect = block
	case "endless":
		block.LostAfter, block.Replace = 0, &no
		tg.Disconnect = block
	case "prevent_reschedule_on_lost":
		tg.PreventRescheduleOnLost = true
	case "max_client_disconnect":
		tg.MaxClientDisconnect = &wait
	}
	if s.StopAfter && tg.Disconnect == nil {
		tg.StopAfterClientDisconnect = &stop
	}
}

func (s *spec) update(tg *model.TaskGroup) {
	u := &model.UpdateStrategy{MaxParallel: 1, ProgressDeadline: progress}
	switch s.Update {
	case "":
		return
	case "canary":
		u.Canary = 1
	case "canary auto_promote":
		u.Canary, u.AutoPromote = 1, true
	case "auto_revert":
		u.AutoRevert = true
	case "no deadline":
		u.ProgressDeadline = 0
	}
	tg.Update = u
}

// replaces reports whether allocs on unreachable nodes may be replaced.
func replaces(tg *model.TaskGroup) bool {
	if tg.Disconnect != nil {
		return tg.Disconnect.Replace == nil || *tg.Disconnect.Replace
	}
	return !tg.PreventRescheduleOnLost
}

// waits returns how long a group waits for allocs on unreachable nodes.
func waits(tg *model.TaskGroup) time.Duration {
	switch {
	case tg.Disconnect != nil:
		return tg.Disconnect.LostAfter
	case tg.MaxClientDisconnect != nil:
		return *tg.MaxClientDisconnect
	}
	return 0
}
