// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/drover-project/drover/core/agent"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/sdk/errdefs"
)

// pluginsOf has plugins whose state a test sets.
type pluginsOf struct {
	*fakeDriver
	mu      sync.Mutex
	now     pluginhost.PluginStatus
	changed chan struct{}
}

func (p *pluginsOf) Plugins() ([]pluginhost.PluginStatus, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return []pluginhost.PluginStatus{p.now}, p.changed
}

func (p *pluginsOf) set(change func(*pluginhost.PluginStatus)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.now)
	close(p.changed)
	p.changed = make(chan struct{})
}

// fail is what the host says of a plugin whose process has failed n times.
func fail(n int, why string) func(*pluginhost.PluginStatus) {
	return func(st *pluginhost.PluginStatus) {
		st.State, st.FailedPID, st.PID = pluginhost.StateBackingOff, st.PID, 0
		st.Restarts += n
		st.LastError = errors.New(why)
		st.LastFailure = st.LastError
	}
}

func run(pid int) func(*pluginhost.PluginStatus) {
	return func(st *pluginhost.PluginStatus) { st.State, st.PID, st.LastError = pluginhost.StateRunning, pid, nil }
}

func messages(n *model.Node) string {
	var out []string
	for _, e := range n.Events {
		out = append(out, e.Subsystem+": "+e.Message)
	}
	return strings.Join(out, "\n")
}

func TestServersHearWhichPluginsANodeHasAndWhatHappensToThem(t *testing.T) {
	p := &pluginsOf{fakeDriver: newFakeDriver(), changed: make(chan struct{}), now: pluginhost.PluginStatus{
		Name: "gpu", Version: "1.2.0", Digest: "sha256:ab", State: pluginhost.StateRunning, PID: 7, Names: pluginhost.Names{Devices: []string{"acme"}},
	}}
	b := &bed{t: t, dir: t.TempDir(), driver: p.fakeDriver, servers: newFakeServers()}
	a, err := agent.New(t.Context(), agent.Config{DataDir: b.dir, Servers: b.servers, Plugins: p})
	if err != nil {
		t.Fatal(err)
	}
	b.agent = a
	t.Cleanup(b.close)
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-a.Ready()
	want := model.NodePlugin{Version: "1.2.0", Digest: "sha256:ab", State: "running", Devices: []string{"acme"}}
	if got := b.servers.registered().Plugins["gpu"]; got == nil || got.Version != want.Version || got.Digest != want.Digest || got.State != want.State || !slices.Equal(got.Devices, want.Devices) {
		t.Fatalf("the node has %+v", got)
	}
	if got := messages(b.servers.registered()); got != "" {
		t.Fatalf("a plugin that runs is no event: %s", got)
	}
	expect := func(what string, lines ...string) {
		t.Helper()
		b.eventually(what, func() bool { return b.servers.events() == strings.Join(lines, "\n") })
	}

	// Failed and restarted many times before anybody looked.
	p.set(fail(1, "it was killed"))
	p.set(run(8))
	p.set(fail(2, "it was killed again"))
	p.set(run(9))
	lines := []string{`Plugin: Plugin "gpu" failed 3 times: it was killed again`, `Plugin: Plugin "gpu" works again`}
	expect("one event for many failures", lines...)
	e := b.servers.event(0)
	if e.Details["version"] != "1.2.0" || e.Details["pid"] != "8" || e.Details["failures"] != "3" || e.Details["error"] != "it was killed again" {
		t.Fatalf("details %v", e.Details)
	}

	p.set(func(st *pluginhost.PluginStatus) {
		fail(5, "bug")(st)
		st.State, st.CrashLoop = pluginhost.StateCrashLoop, true
	})
	lines = append(lines, `Plugin: Plugin "gpu" keeps failing, so it is started again only from time to time: bug`)
	expect("the crash loop", lines...)
	for range 3 {
		p.set(run(10))
		p.set(fail(1, "bug"))
	}
	p.set(func(st *pluginhost.PluginStatus) { run(11)(st); st.CrashLoop = false })
	lines = append(lines, `Plugin: Plugin "gpu" works again`)
	expect("its end, and nothing in between", lines...)

	p.set(func(st *pluginhost.PluginStatus) {
		st.State, st.LastError = pluginhost.StateNotAnswering, errdefs.Unavailablef("no answer since noon")
	})
	lines = append(lines, `Plugin: Plugin "gpu" does not answer: no answer since noon`)
	expect("silence", lines...)
	p.set(run(11))
	expect("its end", append(lines, `Plugin: Plugin "gpu" works again`)...)
}

func TestEventsThatServersDidNotAcceptAreToldAgain(t *testing.T) {
	p := &pluginsOf{fakeDriver: newFakeDriver(), changed: make(chan struct{}), now: pluginhost.PluginStatus{Name: "gpu", State: pluginhost.StateRunning}}
	b := &bed{t: t, dir: t.TempDir(), driver: p.fakeDriver, servers: newFakeServers()}
	fail(1, "early")(&p.now)
	b.servers.refuse(2)
	a, err := agent.New(t.Context(), agent.Config{DataDir: b.dir, Servers: b.servers, Plugins: p})
	if err != nil {
		t.Fatal(err)
	}
	b.agent = a
	t.Cleanup(b.close)
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.eventually("the event of the start", func() bool { return b.servers.events() == `Plugin: Plugin "gpu" failed: early` })
	// Refused in the midst of a session as well.
	b.servers.refuse(1)
	p.set(run(3))
	b.eventually("the event of later", func() bool {
		return b.servers.events() == `Plugin: Plugin "gpu" failed: early`+"\n"+`Plugin: Plugin "gpu" works again`
	})
}
