// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package pluginhost_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/pluginhost"
	steps "github.com/drover-project/drover/core/pluginhost/install"
	"github.com/drover-project/drover/sdk/errdefs"
)

// listed is a plugin as Listed has it.
func listed(h *pluginhost.Host, name string) pluginhost.PluginStatus {
	for _, st := range h.Listed() {
		if st.Name == name {
			return st
		}
	}
	return pluginhost.PluginStatus{}
}

// gate is a reader that stops in the middle of a file until it is opened.
type gate struct {
	first, rest io.Reader
	open        chan struct{}
}

func newGate(body []byte) *gate {
	return &gate{first: bytes.NewReader(body[:len(body)/2]), rest: bytes.NewReader(body[len(body)/2:]), open: make(chan struct{})}
}

func (g *gate) Read(p []byte) (int, error) {
	if n, err := g.first.Read(p); err == nil {
		return n, nil
	}
	<-g.open
	return g.rest.Read(p)
}

func TestAnInstallTellsHowFarItHasCome(t *testing.T) {
	h := start(t, quick(t))
	source, digest := release(t, "1.0.0", "")
	body, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	g := newGate(body)
	done := make(chan error, 1)
	go func() {
		_, err := h.InstallFrom(context.Background(), pluginhost.Release{Name: "versioned", Digest: digest, Size: int64(len(body))}, g)
		done <- err
	}()
	half := int64(len(body) / 2)
	eventually(t, "half of the file has come", func() bool {
		w := listed(h, "versioned").Work
		return w != nil && w.Step == steps.StepFetching && w.Done == half && w.Total == int64(len(body)) && w.Ended.IsZero()
	})
	if st := listed(h, "versioned"); st.State != pluginhost.StateInstalling || st.Work.Action != "install" {
		t.Errorf("while it is fetched: %+v", st)
	}
	close(g.open)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if st := only(t, h); st.Work == nil || st.Work.Ended.IsZero() || st.Work.Err != nil || st.Work.Step != steps.StepSwitching {
		t.Errorf("when it is over: %+v", st.Work)
	}
	if err := h.Remove(t.Context(), "versioned", false); err != nil {
		t.Fatal(err)
	}
	if st := listed(h, "versioned"); st.Name != "" {
		t.Errorf("of what was removed: %+v", st)
	}
}

func TestTheStepInWhichAnUpgradeFailedIsTold(t *testing.T) {
	h := start(t, quick(t))
	if _, err := install(t, h, "1.0.0", ""); err != nil {
		t.Fatal(err)
	}
	check := holds(t, shell(t, h), 3)
	for fault, want := range map[string]pluginhost.Work{
		"exits":     {Step: steps.StepStarting},
		"loses":     {Step: steps.StepRecovering, Total: 3}, // none of them
		"unhealthy": {Step: steps.StepProbing},              // all of them were, before
	} {
		_, err := install(t, h, "2.0.0", fault)
		w := status(h, "versioned").Work
		if err == nil || w.Err == nil || w.Ended.IsZero() || w.Step != want.Step || w.Done != want.Done || w.Total != want.Total {
			t.Errorf("%s: %v, work %+v, want %+v", fault, err, w, want)
		}
		if said := fmt.Sprint(err); !strings.HasPrefix(said, `upgrade plugin "versioned": `) {
			t.Errorf("%s: the error does not say what was done: %s", fault, said)
		}
	}
	check()
}

func TestADetachedInstallGoesOnWithoutItsCaller(t *testing.T) {
	h := start(t, quick(t))
	source, digest := release(t, "1.0.0", "")
	body, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	open := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		select {
		case <-open:
		case <-r.Context().Done():
			return
		}
		_, _ = w.Write(body) // the host says if it did not come
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	r := pluginhost.Release{Name: "versioned", Source: server.URL, Digest: digest}
	if err := h.InstallDetached(ctx, r, nil); err != nil {
		t.Fatal(err)
	}
	cancel() // of its caller
	if st := listed(h, "versioned"); st.State != pluginhost.StateInstalling {
		t.Errorf("at first: %+v", st)
	}
	close(open)
	eventually(t, "it runs", func() bool {
		st := status(h, "versioned")
		return st.State == pluginhost.StateRunning && st.Work != nil && !st.Work.Ended.IsZero() && st.Work.Err == nil
	})
	next, digest := release(t, "2.0.0", "")
	file, err := os.Open(next)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := h.InstallDetached(t.Context(), pluginhost.Release{Name: "versioned", Digest: digest}, file); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what was sent runs", runs(h, "versioned", "2.0.0"))
}

func TestADetachedInstallThatFailsIsToldByTheList(t *testing.T) {
	h := start(t, quick(t))
	source, digest := release(t, "1.0.0", "exits")
	if err := h.InstallDetached(t.Context(), pluginhost.Release{Name: "versioned", Source: source, Digest: digest}, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its outcome", func() bool { return listed(h, "versioned").State == pluginhost.StateNotInstalled })
	if st := listed(h, "versioned"); st.LastError == nil || !strings.Contains(st.LastError.Error(), "ended with exit code") {
		t.Errorf("%+v", st)
	}
	if err := h.Remove(t.Context(), "versioned", false); err != nil || listed(h, "versioned").Name != "" {
		t.Errorf("it cannot be taken off the list: %v, %+v", err, listed(h, "versioned"))
	}
	if err := h.InstallDetached(t.Context(), pluginhost.Release{Name: "versioned", Digest: digest}, strings.NewReader("something else")); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("a file of another digest: %v", err)
	}
	if _, err := install(t, h, "1.0.0", ""); err != nil {
		t.Errorf("nothing is held up by it: %v", err)
	}
}
