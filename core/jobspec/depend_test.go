// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/core/model"
)

const dependHCL = `
job "j" {
  group "g" {
    task "web" {
      driver = "raw_exec"
      depends_on "db" {
        condition = "healthy"
        timeout   = "5m"
      }
      depends_on "cache" {}
      schedule {
        cron {
          start    = "0 9 * * *"
          end      = "0 17"
          timezone = "Europe/Berlin"
        }
      }
    }
    task "db" {
      driver = "raw_exec"
    }
    task "cache" {
      driver = "raw_exec"
    }
  }
}`

func TestDependenciesAndSchedulesReachTheJobFromHCLAndJSON(t *testing.T) {
	draft, err := jobspec.ParseHCL([]byte(dependHCL), jobspec.Options{Filename: "j.hcl"})
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(draft)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(body), "DependsOn"); n != 1 {
		t.Errorf("DependsOn is %d times in the JSON of a job in which one task of three has it", n)
	}
	again, err := jobspec.ParseJSON(body)
	if err != nil {
		t.Fatal(err)
	}
	for from, d := range map[string]*jobspec.Draft{"HCL": draft, "JSON": again} {
		job, err := d.Canonical()
		if err != nil {
			t.Fatalf("%s: %v", from, err)
		}
		task := job.TaskGroups[0].Tasks[0]
		want := []*model.Dependency{{Name: "db", Condition: "healthy", Timeout: 5 * time.Minute}, {Name: "cache", Condition: "started"}}
		if !reflect.DeepEqual(task.DependsOn, want) {
			t.Errorf("%s: %+v", from, task.DependsOn)
		}
		if c := task.Schedule.Cron; *c != (model.TaskScheduleCron{Start: "0 9 * * *", End: "0 17", Timezone: "Europe/Berlin"}) {
			t.Errorf("%s: %+v", from, c)
		}
		if w := job.NotActedOn(); len(w) > 0 {
			t.Errorf("%s: warnings %v", from, w)
		}
	}
}

func TestDependenciesOfGroupsAndJobsReachTheJobFromHCLAndJSON(t *testing.T) {
	src := strings.Replace(dependHCL, "job \"j\" {\n", "job \"j\" {\ndepends_on \"etl\" {\n condition = \"complete\"\n timeout = \"1h\"\n}\n", 1)
	src = strings.Replace(src, "group \"g\" {\n", "group \"first\" {\n task \"t\" {\n driver = \"raw_exec\"\n }\n}\ngroup \"g\" {\ndepends_on \"first\" {}\n", 1)
	draft, err := jobspec.ParseHCL([]byte(src), jobspec.Options{Filename: "j.hcl"})
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(draft)
	if err != nil {
		t.Fatal(err)
	}
	again, err := jobspec.ParseJSON(body)
	if err != nil {
		t.Fatal(err)
	}
	for from, d := range map[string]*jobspec.Draft{"HCL": draft, "JSON": again} {
		job, err := d.Canonical()
		if err != nil {
			t.Fatalf("%s: %v", from, err)
		}
		if want := []*model.Dependency{{Name: "etl", Condition: "complete", Timeout: time.Hour}}; !reflect.DeepEqual(job.DependsOn, want) {
			t.Errorf("%s: the job %+v", from, job.DependsOn)
		}
		g := job.LookupTaskGroup("g")
		if want := []*model.Dependency{{Name: "first", Condition: "started"}}; !reflect.DeepEqual(g.DependsOn, want) || job.LookupTaskGroup("first").DependsOn != nil {
			t.Errorf("%s: the group %+v", from, g.DependsOn)
		}
		if w := job.NotActedOn(); len(w) > 0 {
			t.Errorf("%s: warnings %v", from, w)
		}
	}
}
