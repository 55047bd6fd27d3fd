// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/drover-project/drover/core/model"
)

// lookInterval is the time between two queries for the progress of a plugin change,
// and lookLimit the time limit of each query.
const (
	lookInterval = 200 * time.Millisecond
	lookLimit    = 3 * time.Second
)

// Steps before anything on the node has changed.
const (
	stepFetching  = "fetching"
	stepVerifying = "verifying"
)

// followPlugin sends a plugin change to a node and shows its progress until the
// answer arrives. before is the plugin before the change; nil if the node does not have
// it or does not answer.
func (s *session) followPlugin(ctx context.Context, node, name string, send func(context.Context) (*model.AgentPlugin, error)) (before, after *model.AgentPlugin, err error) {
	show := s.newProgress()
	defer show.end()
	looking, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	before = s.pluginOn(ctx, node, name)
	go func() {
		defer close(ended)
		if show.out != nil {
			s.lookAtPlugin(looking, node, name, show)
		}
	}()
	after, err = send(ctx)
	stop()
	<-ended
	if ctx.Err() != nil {
		show.end()
		s.tellInterrupted(ctx, node, name, workOf(before))
	}
	return before, after, err
}

// lookAtPlugin shows the progress of a plugin change until ctx ends.
func (s *session) lookAtPlugin(ctx context.Context, node, name string, show *progress) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		w := s.workOn(ctx, node, name)
		if w == nil || w.Ended != nil {
			continue
		}
		unit := countText
		if w.Step == stepFetching {
			unit = bytesText
		}
		show.say(stepText(w), w.Done, w.Total, unit)
	}
}

// workOn reads the progress of a plugin change. It returns nil if the node does not
// answer or there is none.
func (s *session) workOn(ctx context.Context, node, name string) *model.PluginWork {
	return workOf(s.pluginOn(ctx, node, name))
}

func workOf(p *model.AgentPlugin) *model.PluginWork {
	if p == nil {
		return nil
	}
	return p.Work
}

// pluginOn reads a plugin. It returns nil if the node does not answer or does not have it.
func (s *session) pluginOn(ctx context.Context, node, name string) *model.AgentPlugin {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	p, err := s.client.AgentPlugin(ctx, node, name)
	if err != nil {
		return nil // the request that makes the change reports errors
	}
	return p
}

// stepText describes a step in words.
func stepText(w *model.PluginWork) string {
	if w == nil {
		return "waiting for another change of the node's plugins"
	}
	steps := map[string]string{
		stepFetching: "fetching the file", stepVerifying: "verifying the digest", "starting": "starting the new version beside the one that runs",
		"recovering": "recovering tasks in the new version", "probing": "asking the new version for its fingerprints", "switching": "switching over",
	}
	if w.Action == "install" { // no version runs yet
		steps["starting"], steps["recovering"] = "starting the plugin for the first time", "recovering tasks"
		steps["probing"], steps["switching"] = "asking the plugin for its fingerprints", "putting the plugin into place"
	}
	if words := steps[w.Step]; words != "" {
		return words
	}
	return "waiting for another change of the node's plugins"
}

// workText describes the current change of a plugin, or the last one.
func workText(p *model.AgentPlugin) string {
	w := p.Work
	switch {
	case w == nil:
		return ""
	case w.Ended == nil && w.Total > 0:
		return fmt.Sprintf("%s, %s: %d of %d", w.Action, stepText(w), w.Done, w.Total)
	case w.Ended == nil:
		return w.Action + ", " + stepText(w)
	case w.Error != "" && p.UpgradeError != "" && strings.Contains(w.Error, p.UpgradeError):
		return fmt.Sprintf("%s at %s failed, see below", w.Action, w.Ended.Format(time.RFC3339))
	case w.Error != "":
		return fmt.Sprintf("%s at %s failed: %s", w.Action, w.Ended.Format(time.RFC3339), w.Error)
	}
	return fmt.Sprintf("%s at %s", w.Action, w.Ended.Format(time.RFC3339))
}

// tellInterrupted prints what happens to a change after the user has interrupted the
// command. before is the change that the plugin had before this one was sent.
func (s *session) tellInterrupted(ctx context.Context, node, name string, before *model.PluginWork) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookLimit)
	defer cancel()
	// The node notices the interruption a moment later.
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	w := s.workOn(ctx, node, name)
	for w != nil && w.Ended == nil && (w.Step == "" || w.Step == stepFetching || w.Step == stepVerifying) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		w = s.workOn(ctx, node, name)
	}
	switch {
	case w == nil, before != nil && w.Began.Equal(before.Began):
		fmt.Fprintf(s.Err, "Plugin %q: nothing was changed\n", name)
	case w.Ended == nil:
		fmt.Fprintf(s.Err, "Plugin %q: the node continues without this command (%s); for the outcome see: drover plugin status %s\n", name, stepText(w), name)
	case w.Error != "" && (w.Step == stepFetching || w.Step == stepVerifying):
		fmt.Fprintf(s.Err, "Plugin %q: nothing was changed\n", name)
	case w.Error != "":
		fmt.Fprintf(s.Err, "Plugin %q: nothing was changed (%s)\n", name, w.Error)
	default:
		fmt.Fprintf(s.Err, "Plugin %q: the change had already completed\n", name)
	}
}
