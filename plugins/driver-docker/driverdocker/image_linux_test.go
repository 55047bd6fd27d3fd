// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker_test

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/plugins/driver-docker/dockertest"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

func image(t *testing.T, marker string) dockertest.Image {
	t.Helper()
	i, err := dockertest.NewImage(marker)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func (n *node) hasImage(name string) bool {
	_, err := n.docker.CLI("image", "inspect", name)
	return err == nil
}

var marker = map[string]any{"command": "cat", "args": []any{"/etc/marker"}}

func TestImagesAreFetchedOnceForAllWhoWaitAndRemovedWhenNobodyUsesThem(t *testing.T) {
	n := newNode(t, map[string]any{"gc": map[string]any{"image_delay": "1s"}})
	r := dockertest.NewRegistry(t)
	name := r.Push(t, "shop", "1", image(t, "one"))
	events, err := n.d.TaskEvents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.Hold()
	var wg sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs {
		tc := n.task(with(script("sleep 600"), map[string]any{"image": name}))
		wg.Go(func() { _, _, errs[i] = n.d.StartTask(limit(t), tc) })
		t.Cleanup(func() {})
		defer func() {
			if err := n.d.DestroyTask(limit(t), tc.Ref(), true); err != nil {
				t.Error(err)
			}
			last := i == 0 // deferred calls run in reverse order
			if !last && !n.hasImage(name) {
				t.Error("the image is gone and a task uses it")
			}
			if last {
				eventually(t, "the image is removed", func() bool { return !n.hasImage(name) })
				if !n.hasImage(dockertest.BusyBox) {
					t.Error("an image that was there before is gone")
				}
			}
		}()
	}
	for told := map[string]bool{}; len(told) < len(errs); {
		if e := <-events; e.Message == "Downloading image" {
			told[e.TaskID] = true
		}
	}
	r.Release()
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	if r.Pulls() != 1 {
		t.Errorf("the image was asked for %d times", r.Pulls())
	}
}

func TestAnImageOfTheOperatorStaysThoughATaskHadItFetchedAgain(t *testing.T) {
	n := newNode(t, map[string]any{"gc": map[string]any{"image_delay": "1s"}})
	r := dockertest.NewRegistry(t)
	operators, fetched := r.Push(t, "operators", "1", image(t, "the operator's")), r.Push(t, "fetched", "1", image(t, "fetched"))
	n.cli("pull", operators)
	defer n.cli("rmi", operators)
	for _, name := range []string{operators, fetched} { // unused in this order
		tc := n.task(with(marker, map[string]any{"image": name, "force_pull": true}))
		n.output(tc)
		if err := n.d.DestroyTask(limit(t), tc.Ref(), true); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the image that the driver has fetched is removed", func() bool { return !n.hasImage(fetched) })
	if !n.hasImage(operators) {
		t.Error("the operator's image is removed")
	}
}

func TestTheProgressOfAFetchIsToldWhileItLasts(t *testing.T) {
	n := newNode(t, nil)
	r := dockertest.NewRegistry(t)
	name := r.Push(t, "large", "1", image(t, "progress "+rand.Text())) // the daemon keeps the layers of an earlier run
	events, err := n.d.TaskEvents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const half = 300 << 10
	r.HoldAfter(half)
	tc := n.task(with(script("sleep 600"), map[string]any{"image": name}))
	started := make(chan error, 1)
	go func() {
		_, _, err := n.d.StartTask(limit(t), tc)
		started <- err
	}()
	defer func() {
		if err := n.d.DestroyTask(limit(t), tc.Ref(), true); err != nil {
			t.Error(err)
		}
	}()
	next := func() *driver.Progress {
		t.Helper()
		for {
			select {
			case e := <-events:
				if e.TaskID == tc.ID && e.Progress != nil {
					return e.Progress
				}
			case <-time.After(time.Minute):
				t.Fatal("there was no more progress")
			}
		}
	}
	p := next()
	for ; p.Total == 0 || p.Done == 0; p = next() {
		if p.Phase != "Downloading image" {
			t.Errorf("before any byte came: %+v", p)
		}
	}
	if p.Unit != driver.UnitBytes || p.Done > half || p.Total <= half || !strings.HasPrefix(p.String(), "Downloading image: ") {
		t.Errorf("%d bytes were sent, and the progress is %+v", half, p)
	}
	r.Release()
	for p.Phase != "" {
		p = next()
		if p.Total > 0 && p.Done > p.Total {
			t.Errorf("too much: %+v", p)
		}
	}
	if err := <-started; err != nil {
		t.Error(err)
	}
}

func TestTheNewestImageIsFetchedWhereATaskAsksForIt(t *testing.T) {
	n := newNode(t, nil)
	r := dockertest.NewRegistry(t)
	for i, tag := range []string{"latest", "1"} {
		name := r.Push(t, "news", tag, image(t, "old"+tag))
		if got := n.output(n.task(with(marker, map[string]any{"image": name}))); got != "old"+tag {
			t.Errorf("first: %q", got)
		}
		r.Push(t, "news", tag, image(t, "new"+tag))
		want := []string{"newlatest", "old1"}[i]
		if got := n.output(n.task(with(marker, map[string]any{"image": name}))); got != want {
			t.Errorf("%s: got %q, want %q", tag, got, want)
		}
		if got := n.output(n.task(with(marker, map[string]any{"image": name, "force_pull": true}))); got != "new"+tag {
			t.Errorf("%s forced: %q", tag, got)
		}
	}
}

func TestAFetchThatCannotSucceedSaysWhyAndEnds(t *testing.T) {
	n := newNode(t, map[string]any{"pull_activity_timeout": "1s"})
	r := dockertest.NewRegistry(t)
	name := r.Push(t, "slow", "1", image(t, "slow"))
	other := r.Push(t, "slower", "1", image(t, "slower"))
	r.Hold()
	for _, c := range []struct {
		name   string
		config map[string]any
		class  errdefs.Class
		says   string
	}{
		{"no such image", map[string]any{"image": r.Host() + "/nothing:1"}, errdefs.NotFound, "name and tag"},
		{"no such name", map[string]any{"image": "UPPER CASE"}, errdefs.InvalidArgument, ""},
		{"timeout", map[string]any{"image": name, "image_pull_timeout": "500ms"}, errdefs.DeadlineExceeded, "image_pull_timeout"},
		{"no progress", map[string]any{"image": other}, errdefs.DeadlineExceeded, "no progress"},
		{"bad timeout", map[string]any{"image": other, "image_pull_timeout": "x"}, errdefs.InvalidArgument, "duration"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := n.d.StartTask(limit(t), n.task(c.config))
			if errdefs.ClassOf(err) != c.class || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("class %s, %v; want %s and %q", errdefs.ClassOf(err), err, c.class, c.says)
			}
			if found := errdefs.ReasonOf(err) == "image_not_found" && errdefs.DetailsOf(err)["image"] != ""; found != (c.class == errdefs.NotFound) {
				t.Errorf("reason %q, details %v", errdefs.ReasonOf(err), errdefs.DetailsOf(err))
			}
		})
	}
	// Other tasks are not delayed.
	if got := n.output(n.task(script("echo well"))); got != "well\n" {
		t.Errorf("another task: %q", got)
	}
}

func TestAnImageBehindALoginNeedsTheRightOne(t *testing.T) {
	n := newNode(t, nil)
	r := dockertest.NewRegistry(t)
	name := r.Push(t, "private", "1", image(t, "private"))
	r.RequireLogin("ann", "s3cret")
	start := func(config map[string]any) error {
		t.Helper()
		tc := n.task(with(marker, with(config, map[string]any{"image": name, "force_pull": true})))
		_, _, err := n.d.StartTask(limit(t), tc)
		if err == nil {
			n.wait(tc)
			err = n.d.DestroyTask(limit(t), tc.Ref(), true)
		}
		return err
	}
	right := map[string]any{"auth": map[string]any{"username": "ann", "password": "s3cret"}}
	if err := start(nil); err == nil {
		t.Error("it was fetched without a login")
	}
	if err := start(map[string]any{"auth": map[string]any{"username": "ann", "password": "wrong"}}); err == nil || strings.Contains(fmt.Sprint(err), "wrong") {
		t.Errorf("a wrong login: %v", err)
	}
	if err := start(right); err != nil {
		t.Errorf("the right login: %v", err)
	}
	file := filepath.Join(t.TempDir(), "config.json")
	auth := base64.StdEncoding.EncodeToString([]byte("ann:s3cret"))
	if err := os.WriteFile(file, fmt.Appendf(nil, `{"auths":{"https://%s/v2/":{"auth":%q}}}`, r.Host(), auth), 0o600); err != nil {
		t.Fatal(err)
	}
	n.configure(with(n.config, map[string]any{"auth": map[string]any{"config": file}}))
	if err := start(nil); err != nil {
		t.Errorf("a login of the agent's file: %v", err)
	}
	bin := t.TempDir()
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	helper := "#!/bin/sh\nread host; [ \"$1 $host\" = \"get " + r.Host() + "\" ] || exit 1\necho '{\"Username\":\"ann\",\"Secret\":\"s3cret\"}'\n"
	if err := os.WriteFile(filepath.Join(bin, "docker-credential-test"), []byte(helper), 0o755); err != nil {
		t.Fatal(err)
	}
	n.configure(with(n.config, map[string]any{"auth": map[string]any{"helper": "test"}}))
	if err := start(nil); err != nil {
		t.Errorf("a login of a helper: %v", err)
	}
	n.configure(with(n.config, map[string]any{"auth": map[string]any{"helper": "missing"}}))
	if err := start(nil); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("a helper that is not there: class %s, %v", errdefs.ClassOf(err), err)
	}
	r.RequireLogin("", "")
	if err := start(map[string]any{"auth_soft_fail": true}); err != nil {
		t.Errorf("without a login, where none is needed: %v", err)
	}
}

func TestAnImageIsLoadedFromAnArchiveOfTheTask(t *testing.T) {
	n := newNode(t, nil)
	archive, err := image(t, "loaded").Archive("loaded:1")
	if err != nil {
		t.Fatal(err)
	}
	tc := n.task(with(marker, map[string]any{"image": "loaded:1", "load": "app.tar"}))
	if err := os.WriteFile(filepath.Join(tc.TaskDir, "local", "app.tar"), archive, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := n.output(tc); got != "loaded" {
		t.Errorf("got %q", got)
	}
	for name, load := range map[string]string{"no archive": "nothing.tar", "out of the task's directory": "../../../../../etc/hostname"} {
		tc := n.task(with(marker, map[string]any{"image": "loaded:2", "load": load}))
		if _, _, err := n.d.StartTask(limit(t), tc); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: class %s, %v", name, errdefs.ClassOf(err), err)
		}
	}
	tc = n.task(with(marker, map[string]any{"image": "loaded:2", "load": "app.tar"}))
	if err := os.WriteFile(filepath.Join(tc.TaskDir, "local", "app.tar"), archive, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := n.d.StartTask(limit(t), tc); !errdefs.IsInvalidArgument(err) {
		t.Errorf("an archive without the image: class %s, %v", errdefs.ClassOf(err), err)
	}
}
