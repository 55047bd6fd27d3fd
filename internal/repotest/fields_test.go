// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package repotest_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/config"
	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/core/model"
)

// TestEveryFieldOfAJobIsActedOnOrNamed walks the types of a job. Each field must
// have one row in model.JobFields, which states the package that acts on it or the
// warning for users who set it; and that package must really read the field.
func TestEveryFieldOfAJobIsActedOnOrNamed(t *testing.T) {
	rows := map[string]model.Field{}
	for _, r := range model.JobFields() {
		if _, twice := rows[r.Name]; twice {
			t.Errorf("%s has two rows", r.Name)
		}
		rows[r.Name] = r
		switch {
		case r.By == "" && r.Warn == "":
			t.Errorf("%s: nobody acts on it, and nobody is warned", r.Name)
		case r.By == "" && r.When == nil, r.Warn != "":
		case r.When != nil || r.Refuse != "":
			t.Errorf("%s: When and Refuse need Warn", r.Name)
		}
	}
	met := map[string]bool{}
	walkFields(t, reflect.TypeFor[model.Job](), rows, met)
	for name := range rows {
		if !met[name] {
			t.Errorf("%s has a row, but is no field of a job, or lies below a field that nobody acts on", name)
		}
	}
	readers, err := fieldReaders("core/model")
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range rows {
		if i := slices.IndexFunc(readers[name], carriesOut); r.By == "" && i >= 0 {
			t.Errorf("%s is a warning, but %s reads it: say in its row what of it is acted on", name, readers[name][i].pkg)
		}
		if r.By != "" && r.By != model.ReadBack && r.By != model.Servers && r.By != model.Around && !acts("core/model", readers[name], r.By) {
			t.Errorf("%s: %s does not read it; its readers are %v", name, r.By, readers[name])
		}
	}
}

// walkFields visits the fields of a type of core/model recursively, down to fields
// that nobody acts on.
func walkFields(t *testing.T, typ reflect.Type, rows map[string]model.Field, met map[string]bool) {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || !strings.HasSuffix(typ.PkgPath(), "core/model") {
		return
	}
	for i := range typ.NumField() {
		f := typ.Field(i)
		name := typ.Name() + "." + f.Name
		r, ok := rows[name]
		if !ok {
			t.Errorf("%s has no row in model.JobFields: say who acts on it, or what is said to whoever sets it", name)
			continue
		}
		if met[name] {
			continue
		}
		met[name] = true
		if r.By != "" && r.By != model.Servers {
			walkFields(t, f.Type, rows, met)
		}
	}
}

// acts reports whether one of the readers matches the row's claim: a package, or a
// function of the package that declares the type. Functions that copy, compare or
// validate do not count.
func acts(owner string, readers []reader, by string) bool {
	for _, r := range readers {
		switch {
		case r.pkg == by && by != owner:
			return true
		case r.pkg == owner && by == owner+"."+r.fun && r.file != "copy.go" && !strings.HasPrefix(r.file, "diff"):
			return true
		}
	}
	return false
}

// carriesOut reports whether a reader is in a package that executes jobs.
func carriesOut(r reader) bool {
	for _, room := range []string{"core/agent", "core/schedule", "core/control", "core/dispatch", "core/plan"} {
		if r.pkg == room || strings.HasPrefix(r.pkg, room+"/") {
			return true
		}
	}
	return false
}

// written are the fields of what operators write apart from jobs, with the package or the
// function that acts on each. On those with "" nobody acts: core/api says so to whoever sets
// them.
var written = map[string]string{
	"SchedulerConfiguration.SchedulerAlgorithm":                    "core/model.SchedulingOf",
	"SchedulerConfiguration.PreemptionConfig":                      "core/model.SchedulingOf",
	"SchedulerConfiguration.MemoryOversubscriptionEnabled":         "core/model.SchedulingOf",
	"SchedulerConfiguration.QueueOrder":                            "core/worker",
	"SchedulerConfiguration.QueueMaxDepth":                         "core/model.LaneRulesOf",
	"SchedulerConfiguration.RejectJobRegistration":                 "core/endpoint",
	"SchedulerConfiguration.PauseEvalBroker":                       "core/worker",
	"SchedulerConfiguration.NodeLimitForFeasibilityChecks":         "",
	"PreemptionConfig.SystemSchedulerEnabled":                      "core/model.Allows",
	"PreemptionConfig.SysBatchSchedulerEnabled":                    "core/model.Allows",
	"PreemptionConfig.BatchSchedulerEnabled":                       "core/model.Allows",
	"PreemptionConfig.ServiceSchedulerEnabled":                     "core/model.Allows",
	"NodePool.SchedulerConfiguration":                              "core/model.SchedulingOf",
	"NodePool.NodeIdentityTTL":                                     "core/auth/nodetoken",
	"NodePoolSchedulerConfiguration.SchedulerAlgorithm":            "core/model.override",
	"NodePoolSchedulerConfiguration.MemoryOversubscriptionEnabled": "core/model.override",
	"NodePoolSchedulerConfiguration.PreemptionConfig":              "core/model.override",
	"NodePoolSchedulerConfiguration.Queue":                         "core/model.LaneRulesOf",
	"PreemptionOverride.SystemSchedulerEnabled":                    "core/model.override",
	"PreemptionOverride.SysBatchSchedulerEnabled":                  "core/model.override",
	"PreemptionOverride.BatchSchedulerEnabled":                     "core/model.override",
	"PreemptionOverride.ServiceSchedulerEnabled":                   "core/model.override",
	"QueueConfiguration.Weight":                                    "core/model.override",
	"QueueConfiguration.Ordered":                                   "core/model.override",
	"QueueConfiguration.MaxDepth":                                  "core/model.override",
	"Namespace.SchedulerConfiguration":                             "core/model.SchedulingOf",
	"Namespace.Quota":                                              "",
	"Namespace.Capabilities":                                       "core/model.AllowsDriver",
	"Namespace.NodePoolConfiguration":                              "core/model.AllowsNodePool",
	"Namespace.VaultConfiguration":                                 "",
	"Namespace.ConsulConfiguration":                                "",
}

// described are fields of the same objects that name or describe them.
var described = []string{"Name", "Description", "Meta", "CreateIndex", "ModifyIndex"}

func TestEveryFieldThatOperatorsWriteIsActedOnOrNamed(t *testing.T) {
	readers, err := fieldReaders("core/model")
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[model.SchedulerConfiguration](), reflect.TypeFor[model.PreemptionConfig](), reflect.TypeFor[model.NodePool](),
		reflect.TypeFor[model.NodePoolSchedulerConfiguration](), reflect.TypeFor[model.Namespace](), reflect.TypeFor[model.PreemptionOverride](), reflect.TypeFor[model.QueueConfiguration](),
	} {
		for i := range typ.NumField() {
			name := typ.Name() + "." + typ.Field(i).Name
			by, listed := written[name]
			switch read := readers[name]; {
			case !listed && !slices.Contains(described, typ.Field(i).Name):
				t.Errorf("%s: say who acts on it, or that nobody does", name)
			case by != "" && !acts("core/model", read, by):
				t.Errorf("%s: %s does not read it; its readers are %v", name, by, read)
			case listed && by == "" && slices.ContainsFunc(read, carriesOut):
				t.Errorf("%s: nobody is said to act on it; its readers are %v", name, read)
			case listed && by == "" && !slices.ContainsFunc(read, func(r reader) bool { return r.pkg == "core/api" }):
				t.Errorf("%s: nobody acts on it, and core/api says nothing", name)
			}
		}
	}
}

// folded are fields of drafts that become other fields when the draft is converted
// to a job.
var folded = map[string]string{
	"Draft.Reschedule":         "the groups' reschedule",
	"Draft.Migrate":            "the groups' migrate",
	"Draft.VaultBlock":         "the tasks' vault",
	"Draft.Tasks":              "groups of one task",
	"TaskGroup.VaultBlock":     "the tasks' vault",
	"ScalingPolicy.Namespace":  "target",
	"LogConfig.Enabled":        "disabled",
	"Service.CheckRestart":     "the checks' check_restart",
	"ConsulProxy.ExposeConfig": "expose",
}

// TestEveryFieldOfADraftReachesTheJob checks that no value of a job file or a
// request is lost before model.JobFields can describe it.
func TestEveryFieldOfADraftReachesTheJob(t *testing.T) {
	met := map[string]bool{}
	var walk func(draft, job reflect.Type)
	walk = func(draft, job reflect.Type) {
		for ; draft.Kind() == reflect.Pointer || draft.Kind() == reflect.Slice || draft.Kind() == reflect.Map; draft = draft.Elem() {
		}
		for ; job.Kind() == reflect.Pointer || job.Kind() == reflect.Slice || job.Kind() == reflect.Map; job = job.Elem() {
		}
		if draft.Kind() != reflect.Struct || !strings.HasSuffix(draft.PkgPath(), "core/jobspec") {
			return
		}
		for i := range draft.NumField() {
			f := draft.Field(i)
			name := draft.Name() + "." + f.Name
			if !f.IsExported() || met[name] {
				continue
			}
			met[name] = true
			to, ok := job.FieldByName(f.Name)
			switch {
			case !ok && folded[name] == "":
				t.Errorf("%s of a draft has no field in model.%s: it would be accepted and ignored", name, job.Name())
			case ok:
				walk(f.Type, to.Type)
			}
		}
	}
	walk(reflect.TypeFor[jobspec.Draft](), reflect.TypeFor[model.Job]())
	for name := range folded {
		if !met[name] {
			t.Errorf("%s is no field of a draft any more", name)
		}
	}
}

// checking reports whether a reader only validates values, or only shows the agent's
// configuration to clients. Neither counts as acting on a key.
func checking(r reader) bool {
	return (r.pkg == "core/config" || r.pkg == accessPackage) && (r.fun == "Finish" || r.fun == "durations" || strings.HasSuffix(strings.ToLower(r.fun), "problems")) ||
		r.pkg == "cmd/drover/daemon" && r.file == "self.go"
}

// accessPackage is the package with the keys of the rights of plugins.
const accessPackage = "core/pluginhost/confine"

// TestEveryKeyOfTheAgentIsActedOnOrNamed walks the types of the configuration: each
// key is either read by code that acts on it, or causes a warning in core/config,
// but not both.
func TestEveryKeyOfTheAgentIsActedOnOrNamed(t *testing.T) {
	readers, err := fieldReaders("core/config")
	if err != nil {
		t.Fatal(err)
	}
	access, err := fieldReaders(accessPackage)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(readers, access)
	unused := config.Unused()
	var walk func(typ reflect.Type, prefix string)
	walk = func(typ reflect.Type, prefix string) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if tag == "-" {
				continue
			}
			key, inner := prefix+tag, f.Type
			for inner.Kind() == reflect.Map || inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if f.Anonymous {
				walk(inner, prefix)
				continue
			}
			if inner.Kind() == reflect.Struct {
				walk(inner, key+".")
				continue
			}
			acted := slices.ContainsFunc(readers[typ.Name()+"."+f.Name], func(r reader) bool { return !checking(r) })
			switch named := slices.Contains(unused, key); {
			case !acted && !named:
				t.Errorf("%s (%s.%s) is read by nothing that acts: make it work, or name it in core/config/keys.go", key, typ.Name(), f.Name)
			case acted && named:
				t.Errorf("%s is acted on: take it out of core/config/keys.go", key)
			}
		}
	}
	walk(reflect.TypeFor[config.Config](), "")
}
