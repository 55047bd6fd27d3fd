// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/agent/allocdir"
	"github.com/drover-project/drover/core/agent/mounts"
	"github.com/drover-project/drover/core/agent/template"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// fetcher is a source of artifacts whose answers the test gives.
type fetcher struct {
	mu   sync.Mutex
	asks []alloc.ArtifactRequest
	do   func(ctx context.Context, n int) error
}

func (f *fetcher) Fetch(ctx context.Context, q alloc.ArtifactRequest, progress func(int64)) error {
	f.mu.Lock()
	f.asks = append(f.asks, q)
	n := len(f.asks)
	f.mu.Unlock()
	progress(42)
	if f.do == nil {
		return nil
	}
	return f.do(ctx, n)
}

func (f *fetcher) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.asks)
}

func artifactTask() *model.Task {
	t := newTask("web")
	t.Artifacts = []*model.TaskArtifact{{GetterSource: "https://x/${NOMAD_TASK_NAME}.tgz", RelativeDest: "local/", GetterOptions: map[string]string{"checksum": "${NOMAD_JOB_ID}"}}}
	t.RestartPolicy = &model.RestartPolicy{Attempts: 5, Interval: time.Hour, Delay: time.Second, Mode: "fail"}
	return t
}

func TestArtifactsAreFetchedBeforeTheTaskStartsAndOnlyOnce(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		f := &fetcher{do: func(_ context.Context, n int) error {
			if n == 1 {
				return errdefs.Unavailablef("artifact https://x/web.tgz: connection refused")
			}
			return nil
		}}
		b.cfg.Artifacts = f
		b.run(newAlloc(artifactTask()))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		b.wants("web", "running")
		b.hasEvent("web", "Client is downloading artifacts")
		b.hasEvent("web", `failed to download artifact https://x/web.tgz: connection refused`)
		if q := f.asks[1]; q.Artifact.GetterSource != "https://x/web.tgz" || q.Artifact.GetterOptions["checksum"] != "j" || q.TaskDir != b.r.Dir().Task("web") {
			t.Errorf("%+v", q)
		}
		b.driver.end(t, "web", 1)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		b.restart(nil)
		synctest.Wait()
		b.driver.end(t, "web", 1)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		b.wants("web", "running")
		if f.count() != 2 {
			t.Errorf("fetched %d times", f.count())
		}
	})
}

func TestAnArtifactThatCanNeverComeFailsTheTaskAtOnce(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		f := &fetcher{do: func(context.Context, int) error { return errdefs.InvalidArgumentf("checksum mismatch") }}
		b.cfg.Artifacts = f
		b.run(newAlloc(artifactTask()))
		synctest.Wait()
		b.wants("", "failed")
		b.hasEvent("web", "checksum mismatch; Error was unrecoverable")
		if s := b.r.Steps()[0]; !strings.Contains(s.LastError, "checksum mismatch") || f.count() != 1 {
			t.Errorf("%+v after %d fetches", s, f.count())
		}
		if e := b.r.View().TaskStates["web"].Events[3]; e.Type != model.TaskArtifactDownloadFailed || e.DownloadError == "" {
			t.Errorf("%+v", e)
		}
	})
}

func TestAnArtifactThatNeverEndsIsGivenUpAndTriedAgain(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		f := &fetcher{do: func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }}
		b.cfg.Artifacts = f
		b.run(newAlloc(artifactTask()))
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := b.r.Steps()[0]; s.Step != alloc.StepArtifacts || s.Detail != "https://x/web.tgz, 42 bytes so far" {
			t.Errorf("%+v", s)
		}
		b.hasEvent("web", `step "artifacts" has taken 30s; it ends at the latest after 35m0s: https://x/web.tgz, 42 bytes so far`)
		time.Sleep(b.cfg.Limits.Artifacts)
		synctest.Wait()
		if f.count() != 2 {
			t.Errorf("fetched %d times", f.count())
		}
		b.hasEvent("web", `step "artifacts" did not end within 35m0s`)
	})
}

// rendering is the templates of one task in the hands of the test.
type rendering struct {
	ready   chan struct{}
	failing error
	env     map[string]string
	secret  map[string]string
	changes chan alloc.TemplateChange
	once    sync.Once
	closed  chan struct{}
}

func (r *rendering) First(ctx context.Context) error {
	if r.failing != nil {
		return r.failing
	}
	select {
	case <-r.ready:
		return nil
	case <-r.closed:
		return errdefs.Canceledf("closed")
	case <-ctx.Done():
		return ctx.Err()
	}
}
func (r *rendering) Changes() <-chan alloc.TemplateChange { return r.changes }
func (r *rendering) Env() template.Vars                   { return template.Vars{Plain: r.env, Secret: r.secret} }
func (r *rendering) Close()                               { r.once.Do(func() { close(r.closed); close(r.changes) }) }
func (r *rendering) Waiting() []string {
	select {
	case <-r.ready:
		return nil
	default:
		return []string{"nomad.var.block(a/b)"}
	}
}

// renderer opens renderings; ready ones unless the test holds them back.
type renderer struct {
	mu      sync.Mutex
	held    bool
	failing error
	opened  []*rendering
	secret  map[string]string // of every rendering
	asks    []alloc.TemplateTask
}

func (r *renderer) Open(_ context.Context, q alloc.TemplateTask) (alloc.Rendering, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := &rendering{ready: make(chan struct{}), changes: make(chan alloc.TemplateChange), closed: make(chan struct{}), failing: r.failing,
		env: map[string]string{"FROM_TEMPLATE": fmt.Sprint("v", len(r.opened)+1)}, secret: r.secret}
	if !r.held {
		close(x.ready)
	}
	r.opened, r.asks = append(r.opened, x), append(r.asks, q)
	return x, nil
}

func (r *renderer) last() *rendering {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.opened[len(r.opened)-1]
}

func templateTask(change func(*model.Template)) *model.Task {
	t := newTask("web")
	t.RestartPolicy = &model.RestartPolicy{Attempts: 1, Interval: time.Hour, Delay: time.Second, Mode: "fail"}
	t.Templates = []*model.Template{{EmbeddedTmpl: "x", DestPath: "local/x", ChangeMode: "restart", Envvars: true}}
	t.Config = map[string]any{"say": "${FROM_TEMPLATE}"}
	if change != nil {
		change(t.Templates[0])
	}
	return t
}

// withTemplates runs f with a renderer.
func withTemplates(t *testing.T, f func(t *testing.T, b *bed, r *renderer)) {
	with(t, func(t *testing.T, b *bed) {
		r := &renderer{}
		b.cfg.Templates = r
		f(t, b, r)
	})
}

func TestATaskWaitsForItsTemplatesAndSaysForWhat(t *testing.T) {
	withTemplates(t, func(t *testing.T, b *bed, r *renderer) {
		r.held = true
		b.run(newAlloc(templateTask(nil)))
		time.Sleep(time.Minute)
		synctest.Wait()
		b.wants("", "pending")
		if s := b.r.Steps()[0]; s.Step != alloc.StepTemplates || s.Detail != "Missing: nomad.var.block(a/b)" {
			t.Errorf("%+v", s)
		}
		b.hasEvent("web", "Missing: nomad.var.block(a/b)")
		time.Sleep(b.cfg.Limits.Templates) // one try ends, another begins
		synctest.Wait()
		b.hasEvent("web", `step "templates" did not end within 10m0s: Missing: nomad.var.block(a/b); it is tried again`)
		close(r.last().ready)
		synctest.Wait()
		b.wants("web", "running")
		if c := b.driver.configs[0]; c.Env["FROM_TEMPLATE"] != "v2" || string(c.DriverConfig) != `{"say":"v2"}` {
			t.Errorf("%s %s", c.Env["FROM_TEMPLATE"], c.DriverConfig)
		}
	})
}

func TestATaskThatWaitsForItsTemplatesCanBeStopped(t *testing.T) {
	withTemplates(t, func(t *testing.T, b *bed, r *renderer) {
		r.held = true
		a := newAlloc(templateTask(nil))
		b.run(a)
		synctest.Wait()
		b.r.Update(stopped(a))
		synctest.Wait()
		b.wants("", "complete")
	})
}

func TestATemplateThatIsWrongFailsTheTask(t *testing.T) {
	withTemplates(t, func(t *testing.T, b *bed, r *renderer) {
		r.failing = errdefs.InvalidArgumentf("local/x:1: no function")
		b.run(newAlloc(templateTask(nil)))
		synctest.Wait()
		b.wants("", "failed")
		b.hasEvent("web", "local/x:1: no function; Error was unrecoverable")
	})
}

func TestAChangedTemplateRestartsTheTaskOutsideOfItsPolicy(t *testing.T) {
	withTemplates(t, func(t *testing.T, b *bed, r *renderer) {
		b.run(newAlloc(templateTask(nil)))
		synctest.Wait()
		for range 5 { // more than the policy allows
			r.last().changes <- alloc.TemplateChange{Mode: "restart"}
			synctest.Wait()
			b.wants("web", "running")
		}
		if len(r.opened) != 1 || b.r.View().TaskStates["web"].Restarts != 5 {
			t.Errorf("%d opened, %d restarts", len(r.opened), b.r.View().TaskStates["web"].Restarts)
		}
		b.hasEvent("web", "Template with change_mode restart re-rendered")
	})
}

func TestARestartRendersAgainOnlyIfThePolicySaysSo(t *testing.T) {
	withTemplates(t, func(t *testing.T, b *bed, r *renderer) {
		web := templateTask(nil)
		web.RestartPolicy.RenderTemplates = true
		b.run(newAlloc(web))
		synctest.Wait()
		b.driver.end(t, "web", 1)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		b.wants("web", "running")
		if len(r.opened) != 2 || b.driver.configs[1].Env["FROM_TEMPLATE"] != "v2" {
			t.Errorf("%d opened", len(r.opened))
		}
	})
}

func TestAChangedTemplateSignalsTheTask(t *testing.T) {
	withTemplates(t, func(t *testing.T, b *bed, r *renderer) {
		b.run(newAlloc(templateTask(nil)))
		synctest.Wait()
		r.last().changes <- alloc.TemplateChange{Mode: "signal", Signals: []string{"SIGHUP"}}
		synctest.Wait()
		b.wants("web", "running")
		b.hasEvent("web", "Task being sent signal SIGHUP: Template re-rendered")
		r.last().changes <- alloc.TemplateChange{Mode: "signal", Signals: []string{"SIGBAD"}}
		synctest.Wait()
		b.wants("", "failed")
		b.hasEvent("web", "Template failed to send signal SIGBAD: no such signal")
	})
}

func TestAChangedTemplateRunsItsScript(t *testing.T) {
	withTemplates(t, func(t *testing.T, b *bed, r *renderer) {
		script := &model.ChangeScript{Command: "/bin/reload", Args: []string{"${NOMAD_TASK_NAME}", "${FROM_TEMPLATE}"}, RunOnFirstRender: true}
		b.run(newAlloc(templateTask(func(x *model.Template) { x.ChangeMode, x.ChangeScript = "script", script })))
		synctest.Wait()
		if got := b.driver.did(); got != "start web, exec /bin/reload web v1 web" {
			t.Fatal(got)
		}
		b.hasEvent("web", "Template successfully ran script /bin/reload with arguments: [${NOMAD_TASK_NAME} ${FROM_TEMPLATE}]. Exit code: 0")
		b.driver.onExec = func(context.Context, []string) (int, error) { return 3, nil }
		r.last().changes <- alloc.TemplateChange{Mode: "script", Scripts: []*model.ChangeScript{script}}
		synctest.Wait()
		b.wants("web", "running")
		b.hasEvent("web", `exited with code 3; output: "said"`)
		b.driver.onExec = func(ctx context.Context, _ []string) (int, error) { <-ctx.Done(); return 0, ctx.Err() }
		strict := *script
		strict.FailOnError = true
		r.last().changes <- alloc.TemplateChange{Mode: "script", Scripts: []*model.ChangeScript{&strict}}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		b.wants("", "failed")
		b.hasEvent("web", "it did not end within 5s")
	})
}

func TestTemplatesOfARunningTaskAreOpenedAgainAfterARestartOfTheAgent(t *testing.T) {
	withTemplates(t, func(t *testing.T, b *bed, r *renderer) {
		b.run(newAlloc(templateTask(nil)))
		synctest.Wait()
		b.restart(func() { r.failing = errdefs.Unavailablef("the source is away") })
		time.Sleep(time.Minute)
		synctest.Wait()
		b.wants("web", "running") // a source that is away ends nothing
		r.mu.Lock()
		r.failing = nil
		r.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		b.wants("web", "running")
		if got := b.driver.did(); got != "start web" {
			t.Error(got)
		}
		if !r.asks[len(r.asks)-1].Running {
			t.Error("the renderer is not told that the task runs")
		}
		r.last().changes <- alloc.TemplateChange{Mode: "restart"}
		synctest.Wait()
		if got := b.driver.did(); got != "start web, stop web, start web" {
			t.Error(got)
		}
	})
}

func TestTheTemplatesOfADeadTaskAreClosed(t *testing.T) {
	withTemplates(t, func(t *testing.T, b *bed, r *renderer) {
		a := newAlloc(templateTask(nil))
		b.run(a)
		synctest.Wait()
		b.r.Update(stopped(a))
		synctest.Wait()
		select {
		case <-r.last().closed:
		default:
			t.Error("still open")
		}
	})
}

func TestADispatchPayloadIsThereWhenTheTaskStarts(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		web := newTask("web")
		web.DispatchPayload = &model.DispatchPayloadConfig{File: "in/../deep/input.txt"}
		a := newAlloc(web)
		a.Job.Payload = []byte("payload")
		b.run(a)
		synctest.Wait()
		b.wants("web", "running")
		if got, err := os.ReadFile(filepath.Join(b.r.Dir().Local("web"), "deep", "input.txt")); err != nil || string(got) != "payload" {
			t.Errorf("%q %v", got, err)
		}
	})
}

func TestADispatchPayloadNeverLeavesTheTasksFolder(t *testing.T) {
	outside := t.TempDir()
	with(t, func(t *testing.T, b *bed) {
		web := newTask("web")
		web.DispatchPayload = &model.DispatchPayloadConfig{File: "../../../../x"}
		web.RestartPolicy = &model.RestartPolicy{Attempts: 1, Interval: time.Hour, Mode: "fail"}
		a := newAlloc(web)
		a.Job.Payload = []byte("payload")
		b.run(a)
		synctest.Wait()
		local := b.r.Dir().Local("web")
		if _, err := os.Stat(filepath.Join(local, "x")); err != nil {
			t.Error(err)
		}
		// A task that puts a link into the place of its folder gains nothing.
		if err := os.RemoveAll(local); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, local); err != nil {
			t.Fatal(err)
		}
		b.driver.end(t, "web", 1)
		synctest.Wait()
		b.wants("", "failed")
		if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
			t.Errorf("%v %v", entries, err)
		}
	})
}

func TestAStickyDiskIsTakenOverFromTheAllocBefore(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		a := newAlloc(newTask("web"))
		a.Job.TaskGroups[0].EphemeralDisk = &model.EphemeralDisk{Sticky: true}
		b.run(a)
		synctest.Wait()
		old := b.r.Dir()
		for name, body := range map[string]string{filepath.Join(old.Shared(), "data", "d"): "shared", filepath.Join(old.Local("web"), "l"): "own", filepath.Join(old.Shared(), "tmp", "t"): "no"} {
			if err := os.WriteFile(name, []byte(body), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		b.r.Update(stopped(a))
		synctest.Wait()
		b.r.Close()
		next := newAlloc(newTask("web"))
		next.Job.TaskGroups[0].EphemeralDisk = &model.EphemeralDisk{Sticky: true}
		next.ID, next.PreviousAllocation = "a2", "a1"
		b.run(next)
		synctest.Wait()
		for name, want := range map[string]string{"alloc/data/d": "shared", "web/local/l": "own"} {
			if got, err := os.ReadFile(filepath.Join(b.r.Dir().Path, name)); err != nil || string(got) != want {
				t.Errorf("%s: %q %v", name, got, err)
			}
		}
		if _, err := os.Stat(filepath.Join(b.r.Dir().Shared(), "tmp", "t")); !os.IsNotExist(err) {
			t.Errorf("tmp was taken over, too: %v", err)
		}
	})
}

func TestSecretsInMemoryAreThereAndWhatWasLostWithThemIsFetchedAgain(t *testing.T) {
	if err := allocdir.ProbeSecrets(t.TempDir()); err != nil {
		t.Skip(err)
	}
	with(t, func(t *testing.T, b *bed) {
		f := &fetcher{}
		b.cfg.Artifacts, b.cfg.SecretsInMemory = f, true
		b.run(newAlloc(artifactTask()))
		defer func() {
			if err := mounts.Detach(b.r.Dir().Path); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		b.wants("web", "running")
		b.driver.end(t, "web", 1)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if f.count() != 1 {
			t.Fatalf("fetched %d times", f.count())
		}
		b.driver.end(t, "web", 1)
		synctest.Wait()
		if err := mounts.Detach(b.r.Dir().Path); err != nil { // as the start of a machine does
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		b.wants("web", "running")
		if f.count() != 2 {
			t.Errorf("fetched %d times", f.count())
		}
	})
}

func TestTheGroupsShutdownDelayIsWaitedForOnce(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		a := newAlloc(newTask("main"), newTask("proxy:prestart:sidecar"))
		delay := 10 * time.Second
		a.Job.TaskGroups[0].ShutdownDelay = &delay
		b.run(a)
		synctest.Wait()
		b.r.Update(stopped(a))
		time.Sleep(9 * time.Second)
		synctest.Wait()
		b.wants("main proxy", "running")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		b.wants("", "complete")
	})
}
