// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
)

// rolling is a sound update block.
func rolling(change func(u *model.UpdateStrategy)) *model.UpdateStrategy {
	u := &model.UpdateStrategy{MaxParallel: 1, HealthCheck: "checks", MinHealthyTime: 10 * time.Second, HealthyDeadline: 5 * time.Minute, ProgressDeadline: 10 * time.Minute}
	change(u)
	return u
}

// TestRequestsThatCannotWorkAreRefusedWithTheirCause has the bad input of issue F that can be
// known without a cluster.
func TestRequestsThatCannotWorkAreRefusedWithTheirCause(t *testing.T) {
	constraint := func(l, op, r string) func(j *model.Job) {
		return func(j *model.Job) {
			j.TaskGroups[0].Constraints = []*model.Constraint{{LTarget: l, Operand: op, RTarget: r}}
		}
	}
	update := func(change func(u *model.UpdateStrategy)) func(j *model.Job) {
		return func(j *model.Job) { j.TaskGroups[0].Update = rolling(change) }
	}
	for name, c := range map[string]struct {
		spoil func(j *model.Job)
		want  string
	}{
		"a sound update block": {update(func(*model.UpdateStrategy) {}), ""},
		"a regular expression": {constraint("${attr.x}", "regexp", "("), "missing closing"},
		"a version":            {constraint("${attr.x}", "version", "~> x"), "~> x"},
		"an operator":          {constraint("${attr.x}", "resembles", "y"), "resembles"},
		"constraints that exclude another": {func(j *model.Job) {
			j.Constraints = []*model.Constraint{{LTarget: "${attr.kernel.name}", Operand: "=", RTarget: "linux"}}
			j.TaskGroups[0].Tasks[0].Constraints = []*model.Constraint{{LTarget: "${attr.kernel.name}", Operand: "=", RTarget: "windows"}}
		}, `${attr.kernel.name} has to be both "linux" and "windows"`},
		"the same constraint twice": {func(j *model.Job) {
			j.Constraints = []*model.Constraint{{LTarget: "${attr.kernel.name}", Operand: "=", RTarget: "linux"}}
			j.TaskGroups[0].Constraints = j.Constraints
		}, ""},
		"a weight of an affinity": {func(j *model.Job) {
			j.Affinities = []*model.Affinity{{LTarget: "${attr.x}", Operand: "=", RTarget: "y", Weight: 101}}
		}, "weight"},
		"an affinity without weight": {func(j *model.Job) {
			j.Affinities = []*model.Affinity{{LTarget: "${attr.x}", Operand: "=", RTarget: "y"}}
		}, "weight"},
		"a spread over 100 percent": {func(j *model.Job) {
			j.Spreads = []*model.Spread{{Attribute: "${node.datacenter}", Weight: 50, SpreadTarget: []*model.SpreadTarget{{Value: "a", Percent: 60}, {Value: "b", Percent: 50}}}}
		}, "100"},
		"canaries without a deployment":      {update(func(u *model.UpdateStrategy) { u.Canary, u.MaxParallel = 2, 0 }), "max_parallel 0 makes no deployment"},
		"min_healthy_time over its deadline": {update(func(u *model.UpdateStrategy) { u.MinHealthyTime = time.Hour }), "must be less than healthy deadline"},
		"healthy_deadline over progress":     {update(func(u *model.UpdateStrategy) { u.HealthyDeadline = time.Hour }), "Healthy deadline must be less than progress deadline"},
		"kill_timeout over progress_deadline": {func(j *model.Job) {
			update(func(*model.UpdateStrategy) {})(j)
			j.TaskGroups[0].Tasks[0].KillTimeout = 11 * time.Minute
		}, "longer than the group's progress deadline"},
		"a count outside its scaling": {func(j *model.Job) {
			j.TaskGroups[0].Scaling = &model.ScalingPolicy{Min: 2, Max: 3}
		}, "must not be less than minimum count"},
		"a scaling to fewer than none": {func(j *model.Job) {
			j.TaskGroups[0].Scaling = &model.ScalingPolicy{Min: -1, Max: 3}
		}, "minimum count must not be negative, and is -1"},
		"a scaling of a task to less than nothing": {func(j *model.Job) {
			j.TaskGroups[0].Tasks[0].ScalingPolicies = []*model.ScalingPolicy{{Type: "vertical_cpu", Min: -1, Max: 3}}
		}, "minimum count must not be negative, and is -1"},
		"a scaling of a task whose bounds are the wrong way round": {func(j *model.Job) {
			j.TaskGroups[0].Tasks[0].ScalingPolicies = []*model.ScalingPolicy{{Type: "vertical_cpu", Min: 500, Max: 300}}
		}, "maximum count must not be less than minimum count"},
		"two scalings of one resource": {func(j *model.Job) {
			j.TaskGroups[0].Tasks[0].ScalingPolicies = []*model.ScalingPolicy{{Type: "vertical_cpu"}, {Type: "vertical_mem"}, {Type: "vertical_cpu"}}
		}, `2 scaling policies of type "vertical_cpu"`},
		"several regions": {func(j *model.Job) {
			j.Multiregion = &model.Multiregion{Regions: []*model.MultiregionRegion{{Name: "west", Count: 2}, {Name: "east", Count: 1}}}
		}, "multiregion is not possible yet: regions are not federated, so all of the job would run in this one, with counts that are not those of its regions; remove the block, and run the job in each region with its own count"},
		"a secret block": {func(j *model.Job) {
			j.TaskGroups[0].Tasks[0].Secrets = []*model.Secret{{Name: "db", Provider: "nomad", Path: "nomad/jobs/db"}}
		}, `is not possible yet: nothing fetches it, and the task would get "${secret.NAME.KEY}" as it is written; write a template with nomadVar`},
		"10,000 groups": {func(j *model.Job) {
			for i := range 10_000 {
				g := *j.TaskGroups[0]
				g.Name = fmt.Sprint("g", i)
				j.TaskGroups = append(j.TaskGroups, &g)
			}
		}, "at most 2000"},
		"a million constraints": {func(j *model.Job) {
			j.Constraints = make([]*model.Constraint, 1_000_000)
			for i := range j.Constraints {
				j.Constraints[i] = &model.Constraint{LTarget: "${attr.x}", Operand: "=", RTarget: "y"}
			}
		}, "at most 500"},
		"more MHz than can be added up":                {ofTask(func(t *model.Task) { t.Resources.CPU = math.MaxInt64 }), "cpu is 9223372036854775807; at most 1099511627776 can be asked for"},
		"more memory than can be added up":             {ofTask(func(t *model.Task) { t.Resources.MemoryMB = math.MaxInt64 }), "memory is 9223372036854775807; at most"},
		"a limit of memory that is no number of bytes": {ofTask(func(t *model.Task) { t.Resources.MemoryMaxMB = 1 << 45 }), "memory_max is"},
		"more devices than can be added up": {ofTask(func(t *model.Task) {
			t.Resources.Devices = []*model.RequestedDevice{{Name: "gpu", Count: math.MaxUint64}}
		}), `count of device "gpu" is`},
		"a disk that is no number of bytes": {func(j *model.Job) { j.TaskGroups[0].EphemeralDisk.SizeMB = 1 << 45 }, "size of ephemeral_disk is"},
		"logs whose size overflows":         {ofTask(func(t *model.Task) { t.LogConfig.MaxFiles, t.LogConfig.MaxFileSizeMB = math.MaxInt64, 2 }), "log storage (18446744073709551616 MB) must be less"},
		"a checksum that nothing can have": {ofTask(func(t *model.Task) {
			t.Artifacts = []*model.TaskArtifact{{GetterSource: "https://x/y", GetterMode: "any", GetterOptions: map[string]string{"checksum": "sha256:abc"}}}
		}), `Artifact 1 validation failed: checksum "sha256:abc"`},
		"a checksum that the node knows": {ofTask(func(t *model.Task) {
			t.Artifacts = []*model.TaskArtifact{{GetterSource: "https://x/y", GetterMode: "any", GetterOptions: map[string]string{"checksum": "${NOMAD_META_sum}"}}}
		}), ""},
		"a schedule that never fires":   {ofTask(func(t *model.Task) { t.Schedule = cronOf("0 0 30 2 *", "0 9") }), "never fires"},
		"a schedule without its end":    {ofTask(func(t *model.Task) { t.Schedule = cronOf("0 8 * * *", "") }), "end: "},
		"a schedule of no length":       {ofTask(func(t *model.Task) { t.Schedule = cronOf("0 8 * * *", "0 8") }), "no length"},
		"a schedule without cron block": {ofTask(func(t *model.Task) { t.Schedule = &model.TaskSchedule{} }), "no cron block"},
		"a schedule of a hook": {ofTask(func(t *model.Task) {
			t.Schedule, t.Lifecycle = cronOf("0 8 * * *", "0 9"), &model.TaskLifecycleConfig{Hook: "prestart"}
		}), "because the group waits for it"},
	} {
		t.Run(name, func(t *testing.T) {
			j := validJob()
			c.spoil(j)
			err := j.Validate()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func ofTask(change func(t *model.Task)) func(j *model.Job) {
	return func(j *model.Job) { change(j.TaskGroups[0].Tasks[0]) }
}

func cronOf(start, end string) *model.TaskSchedule {
	return &model.TaskSchedule{Cron: &model.TaskScheduleCron{Start: start, End: end}}
}

func TestDependenciesThatCanNeverBeMetAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"b a started; c b healthy":              "",
		"pre pre2 complete; b pre complete":     "",
		"a a started":                           "makes a cycle, so that none of its tasks can start: a -> a",
		"a c started; b a started; c b started": "a -> c -> b -> a",
		"a nobody started":                      `the group has no task "nobody"`,
		"b a ready":                             `condition "ready" of task "a" is unknown`,
		"b a complete":                          `task "a" never completes`,
		"b side complete":                       `task "side" never completes`,
		"a post started":                        "begins only after this one",
		"a stop started":                        "begins only after this one",
		"pre a started":                         "begins only after this one",
		"stop a started":                        "cannot wait",
		"b a started; b a healthy":              "named twice",
	} {
		j := validJob()
		tg := j.TaskGroups[0]
		first := tg.Tasks[0]
		tg.Tasks = nil
		for _, name := range []string{"a", "b", "c", "pre:prestart", "pre2:prestart", "side:prestart:sidecar", "post:poststart", "stop:poststop"} {
			x := first.Copy()
			part := strings.Split(name, ":")
			x.Name, x.LogConfig.MaxFiles = part[0], 1
			if len(part) > 1 {
				x.Lifecycle = &model.TaskLifecycleConfig{Hook: part[1], Sidecar: len(part) > 2}
			}
			tg.Tasks = append(tg.Tasks, x)
		}
		for _, d := range strings.Split(text, "; ") {
			f := strings.Fields(d)
			x := tg.LookupTask(f[0])
			x.DependsOn = append(x.DependsOn, &model.Dependency{Name: f[1], Condition: f[2]})
		}
		err := j.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestTheLeaderCannotBeADependencyThatCompletes(t *testing.T) {
	j := batchJob()
	tg := j.TaskGroups[0]
	tg.Tasks[0].Leader = true
	x := tg.Tasks[0].Copy()
	x.Name, x.Leader = "x", false
	x.DependsOn = []*model.Dependency{{Name: tg.Tasks[0].Name, Condition: "complete", Timeout: -time.Second}}
	tg.Tasks = append(tg.Tasks, x)
	err := j.Validate()
	for _, want := range []string{"when it is complete, the group ends", "must not be negative"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestDependenciesOfGroupsAndJobsThatCanNeverBeMetAreRefused(t *testing.T) {
	on := func(name, condition string) []*model.Dependency {
		return []*model.Dependency{{Name: name, Condition: condition}}
	}
	for want, change := range map[string]func(j *model.Job){
		"": func(j *model.Job) {
			j.DependsOn, j.TaskGroups[1].DependsOn = on("other", "complete"), on("a", "healthy")
		},
		"none of its groups can start: a -> b -> a": func(j *model.Job) {
			j.TaskGroups[0].DependsOn, j.TaskGroups[1].DependsOn = on("b", "started"), on("a", "started")
		},
		"none of its groups can start: a -> a":       func(j *model.Job) { j.TaskGroups[0].DependsOn = on("a", "started") },
		`the job has no group "x"`:                   func(j *model.Job) { j.TaskGroups[0].DependsOn = on("x", "started") },
		`group "b" never completes`:                  func(j *model.Job) { j.TaskGroups[0].DependsOn = on("b", "complete") },
		`condition "ready" of group "b" is unknown`:  func(j *model.Job) { j.TaskGroups[0].DependsOn = on("b", "ready") },
		`group "b" is named twice`:                   func(j *model.Job) { j.TaskGroups[0].DependsOn = append(on("b", "started"), on("b", "healthy")...) },
		`condition "up" of job "other" is unknown`:   func(j *model.Job) { j.DependsOn = on("other", "up") },
		"the job depends on itself":                  func(j *model.Job) { j.DependsOn = on(j.ID, "started") },
		"has no name":                                func(j *model.Job) { j.DependsOn = on("", "started") },
		`job "x" is named twice`:                     func(j *model.Job) { j.DependsOn = append(on("x", "started"), on("x", "started")...) },
		`the timeout of job "x" must not be negativ`: func(j *model.Job) { j.DependsOn = []*model.Dependency{{Name: "x", Condition: "started", Timeout: -1}} },
		"all_at_once places all groups together": func(j *model.Job) {
			j.AllAtOnce, j.TaskGroups[0].DependsOn = true, on("b", "started")
		},
	} {
		j := validJob()
		j.TaskGroups[0].Name = "a"
		b := j.TaskGroups[0].Copy()
		b.Name = "b"
		j.TaskGroups = append(j.TaskGroups, b)
		change(j)
		err := j.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestCyclesOfJobsAreFoundAmongThoseThatAreNotStopped(t *testing.T) {
	jobs := map[string]*model.Job{}
	add := func(id, kind string, on ...string) *model.Job {
		j := &model.Job{Namespace: "default", ID: id, Type: kind}
		for _, name := range on {
			j.DependsOn = append(j.DependsOn, &model.Dependency{Name: name, Condition: model.DependencyComplete})
		}
		jobs[id] = j
		return j
	}
	add("load", "batch", "extract")
	extract := add("extract", "batch", "report")
	report := &model.Job{Namespace: "default", ID: "report", Type: "batch", DependsOn: []*model.Dependency{{Name: "load", Condition: model.DependencyStarted}}}
	check := func(want string) {
		t.Helper()
		err := report.CheckDependencies(func(id string) *model.Job { return jobs[id] })
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	check("none of them can start: report -> load -> extract -> report")
	extract.Stop = true
	check("")
	add("load", "service")
	report.DependsOn[0].Condition = model.DependencyComplete
	check(`job "load" never completes: it is of type service`)
	add("load", "batch").Periodic = &model.PeriodicConfig{}
	check(`job "load" is a template`)
	delete(jobs, "load")
	check("")
	if w := report.MissingDependencies(func(id string) *model.Job { return jobs[id] }); len(w) != 1 || !strings.Contains(w[0], `there is no job "load"`) {
		t.Errorf("warnings: %q", w)
	}
}
