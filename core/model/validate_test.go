// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// validJob returns a small job that Validate takes.
func validJob() *model.Job {
	restart := &model.RestartPolicy{Attempts: 2, Interval: 30 * time.Minute, Delay: 15 * time.Second, Mode: "fail"}
	return &model.Job{
		Region: "global", Namespace: "default", ID: "web", Name: "web", Type: "service", Priority: 50, Datacenters: []string{"*"}, NodePool: "default",
		TaskGroups: []*model.TaskGroup{{
			Name: "app", Count: 1, RestartPolicy: restart, EphemeralDisk: &model.EphemeralDisk{SizeMB: 300},
			ReschedulePolicy: &model.ReschedulePolicy{Unlimited: true, Delay: 30 * time.Second, DelayFunction: "exponential", MaxDelay: time.Hour},
			Tasks: []*model.Task{{
				Name: "server", Driver: "raw_exec", Config: map[string]any{"command": "/bin/true", "args": []any{"a", "b"}},
				Env: map[string]string{"A": "1"}, Resources: &model.Resources{CPU: 100, MemoryMB: 300}, RestartPolicy: restart,
				LogConfig: &model.LogConfig{MaxFiles: 10, MaxFileSizeMB: 10}, KillTimeout: 5 * time.Second,
			}},
		}},
	}
}

func TestValidateTakesASoundJob(t *testing.T) {
	if err := validJob().Validate(); err != nil {
		t.Fatal(err)
	}
}

func TestAJobIDMayHaveAnyCharacterButNULAndSpace(t *testing.T) {
	j := validJob()
	j.ID, j.Name = "troublesome:characters\n?&字\x1b", "x"
	if err := j.Validate(); err != nil {
		t.Error(err)
	}
}

func TestVersionsThatASchedulerCanReadAreAccepted(t *testing.T) {
	for _, want := range []string{">= 1.2, < 2.0", "~> 1.9.0", "1.2.3", "!= 1.0.0-beta", "${meta.wanted}", ">= ${meta.least}"} {
		for _, operand := range []string{model.ConstraintVersion, model.ConstraintSemver} {
			j := validJob()
			j.Constraints = []*model.Constraint{{LTarget: "${attr.v}", Operand: operand, RTarget: want}}
			if err := j.Validate(); err != nil {
				t.Errorf("%s %q: %v", operand, want, err)
			}
		}
	}
}

func TestValidateNamesEachMistake(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(j *model.Job)
		want  string
	}{
		"negative count":     {func(j *model.Job) { j.TaskGroups[0].Count = -1 }, "Task group count can't be negative"},
		"no driver":          {func(j *model.Job) { j.TaskGroups[0].Tasks[0].Driver = "" }, "Missing task driver"},
		"path in task name":  {func(j *model.Job) { j.TaskGroups[0].Tasks[0].Name = "../x" }, "path separator"},
		"dots as group name": {func(j *model.Job) { j.TaskGroups[0].Name = ".." }, "path separator"},
		"space in job ID":    {func(j *model.Job) { j.ID = "a b" }, "Job ID contains a space"},
		"NUL in job ID":      {func(j *model.Job) { j.ID = "a\x00b" }, "null character"},
		"duplicate group":    {func(j *model.Job) { j.TaskGroups = append(j.TaskGroups, j.TaskGroups[0]) }, "redefines 'app'"},
		"bad regular expr": {func(j *model.Job) {
			j.Constraints = []*model.Constraint{{LTarget: "${a}", Operand: "regexp", RTarget: "("}}
		}, "failed to compile"},
		"bad version": {func(j *model.Job) {
			j.Constraints = []*model.Constraint{{LTarget: "${attr.kernel.version}", Operand: "version", RTarget: ">>> 3"}}
		}, `Version constraint ">>> 3" cannot be read`},
		"bad version of a device": {func(j *model.Job) {
			j.TaskGroups[0].Tasks[0].Resources.Devices = []*model.RequestedDevice{{Name: "gpu", Count: 1,
				Constraints: []*model.Constraint{{LTarget: "${device.attr.v}", Operand: "semver", RTarget: "1.0,"}}}}
		}, `Version constraint "1.0," cannot be read`},
		"bad version of an affinity": {func(j *model.Job) {
			j.TaskGroups[0].Affinities = []*model.Affinity{{LTarget: "${attr.v}", Operand: "semver", RTarget: "new", Weight: 50}}
		}, `Version constraint "new" cannot be read`},
		"unknown operator": {func(j *model.Job) { j.Constraints = []*model.Constraint{{LTarget: "${a}", Operand: "~", RTarget: "x"}} }, "Unknown constraint type"},
		"priority":         {func(j *model.Job) { j.Priority = 101 }, "Job priority must be between [1, 100]"},
		"port too big": {func(j *model.Job) {
			j.TaskGroups[0].Networks = []*model.NetworkResource{{ReservedPorts: []model.Port{{Label: "x", Value: 70000}}}}
		}, "cannot be greater than 65535"},
		"template escapes": {func(j *model.Job) {
			j.TaskGroups[0].Tasks[0].Templates = []*model.Template{{EmbeddedTmpl: "x", DestPath: "../../etc/x", ChangeMode: "noop"}}
		}, "escapes allocation directory"},
		"template perms": {func(j *model.Job) {
			j.TaskGroups[0].Tasks[0].Templates = []*model.Template{{EmbeddedTmpl: "x", DestPath: "local/x", ChangeMode: "noop", Perms: "0999"}}
		}, `Failed to parse "0999" as octal`},
		"template delimiters": {func(j *model.Job) {
			j.TaskGroups[0].Tasks[0].Templates = []*model.Template{{EmbeddedTmpl: "x", DestPath: "local/x", ChangeMode: "noop", LeftDelim: "%", RightDelim: "%"}}
		}, "must both be set and differ"},
		"template script": {func(j *model.Job) {
			j.TaskGroups[0].Tasks[0].Templates = []*model.Template{{EmbeddedTmpl: "x", DestPath: "local/x", ChangeMode: "script",
				ChangeScript: &model.ChangeScript{Command: "/bin/x", Timeout: -1}}}
		}, "timeout of the change script"},
		"logs larger than disk": {func(j *model.Job) { j.TaskGroups[0].Tasks[0].LogConfig.MaxFiles = 100 }, "log storage (1000 MB)"},
		"kill timeout": {func(j *model.Job) {
			j.TaskGroups[0].Update = &model.UpdateStrategy{HealthCheck: "task_states", HealthyDeadline: time.Minute, ProgressDeadline: 2 * time.Minute}
			j.TaskGroups[0].Tasks[0].KillTimeout = 3 * time.Minute
		}, "task server has a kill timeout (3m0s) longer than the group's progress deadline (2m0s)"},
		"a provider that no plugin can have": {func(j *model.Job) {
			j.TaskGroups[0].Services = []*model.Service{{Name: "web", Provider: "my registry"}}
		}, `or the name of a registry plugin (letters, digits, '.', '_' and '-', at most 64); not "my registry"`},
		"null affinity": {func(j *model.Job) { j.Affinities = []*model.Affinity{nil} }, "Job.Affinities[0] is null"},
	} {
		t.Run(name, func(t *testing.T) {
			j := validJob()
			c.spoil(j)
			err := j.Validate()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want a message with %q", err, c.want)
			}
			if !errors.Is(err, errdefs.InvalidArgument) {
				t.Errorf("the error is not of class InvalidArgument")
			}
		})
	}
}

func TestCopySharesNothing(t *testing.T) {
	a := validJob()
	b := a.Copy()
	b.TaskGroups[0].Tasks[0].Config["args"].([]any)[0] = "changed"
	b.TaskGroups[0].Tasks[0].Env["A"] = "2"
	b.TaskGroups[0].RestartPolicy.Attempts = 9
	if model.SpecChanged(a, validJob()) {
		t.Error("changing the copy changed the original")
	}
	if !model.SpecChanged(a, b) {
		t.Error("a changed copy counts as unchanged")
	}
}

func TestSpecChangedIgnoresWhatServersSet(t *testing.T) {
	a, b := validJob(), validJob()
	b.Version, b.ModifyIndex, b.Status, b.Stable, b.SubmitTime = 3, 9, "running", true, 1
	b.Meta = map[string]string{}
	if model.SpecChanged(a, b) {
		t.Error("indexes, status and empty maps count as a change")
	}
}

func TestDiffShowsExactlyWhatChanged(t *testing.T) {
	a, b := validJob(), validJob()
	if d, err := model.DiffJobs(a, b); err != nil || d.Type != model.DiffTypeNone || d.TaskGroups != nil {
		t.Fatalf("equal jobs differ: %+v, %v", d, err)
	}
	b.TaskGroups[0].Count = 3
	b.TaskGroups[0].Tasks[0].Env["A"] = "2"
	b.TaskGroups[0].Tasks[0].Config["args"] = []any{"a", "c"}
	b.Datacenters = []string{"dc1"}
	d, err := model.DiffJobs(a, b)
	if err != nil {
		t.Fatal(err)
	}
	g := d.TaskGroups[0]
	task := g.Tasks[0]
	if d.Type != "Edited" || len(d.Objects) != 1 || d.Objects[0].Name != "Datacenters" || len(d.Objects[0].Fields) != 2 {
		t.Errorf("job: %+v", d)
	}
	if len(g.Fields) != 1 || !same(g.Fields[0], "Count", "1", "3") {
		t.Errorf("group: %+v", g.Fields)
	}
	if len(task.Fields) != 1 || !same(task.Fields[0], "Env[A]", "1", "2") {
		t.Errorf("task: %+v", task.Fields)
	}
	if len(task.Objects) != 1 || task.Objects[0].Name != "Config" || !same(task.Objects[0].Fields[0], "args[1]", "b", "c") {
		t.Errorf("config: %+v", task.Objects)
	}
}

func TestDiffListsTheTasksOfAChangedGroupThatDidNotChange(t *testing.T) {
	a, b := validJob(), validJob()
	b.TaskGroups[0].Count = 3
	d, err := model.DiffJobs(a, b)
	if err != nil {
		t.Fatal(err)
	}
	d.Annotate(&model.PlanAnnotations{DesiredTGUpdates: map[string]*model.DesiredUpdates{b.TaskGroups[0].Name: {InPlaceUpdate: 2}}})
	if task := d.TaskGroups[0].Tasks[0]; task.Type != model.DiffTypeNone || task.Name != b.TaskGroups[0].Tasks[0].Name || task.Fields != nil || task.Objects != nil || task.Annotations != nil {
		t.Errorf("%+v", task)
	}
}

func same(f *model.FieldDiff, name, older, newer string) bool {
	return f.Type == model.DiffTypeEdited && f.Name == name && f.Old == older && f.New == newer
}

func TestSignalsThatNoSystemHasAreRefused(t *testing.T) {
	for signal, ok := range map[string]bool{
		"SIGTERM": true, "term": true, "15": true, "SIGINFO": true, "SIGRTMIN+3": true, "${meta.signal}": true,
		"SIGFOO": false, "SIG": false, "0": false, "65": false, "-1": false, "SIGRTMIN+": false, "SIG TERM": false,
	} {
		job := validJob()
		task := job.TaskGroups[0].Tasks[0]
		task.KillSignal = signal
		task.Templates = []*model.Template{{EmbeddedTmpl: "x", DestPath: "local/x", ChangeMode: "signal", ChangeSignal: signal, Perms: "0644"}}
		task.Identities = []*model.WorkloadIdentity{{Name: "x", File: true, ChangeMode: "signal", ChangeSignal: signal}}
		said := strings.Count(fmt.Sprint(job.Validate()), fmt.Sprintf("signal %q is unknown; name it as SIGTERM, TERM or 15", signal))
		if want := map[bool]int{true: 0, false: 3}[ok]; said != want {
			t.Errorf("%q is refused at %d of 3 places: %v", signal, said, job.Validate())
		}
	}
}

func TestATemplateHasOneSource(t *testing.T) {
	job := validJob()
	job.TaskGroups[0].Tasks[0].Templates = []*model.Template{{SourcePath: "local/a", EmbeddedTmpl: "x", DestPath: "local/x", ChangeMode: "noop", Perms: "0644"}}
	if err := job.Validate(); err == nil || !strings.Contains(err.Error(), `source and data exclude each other: "local/a" would not be read`) {
		t.Errorf("got %v", err)
	}
}
