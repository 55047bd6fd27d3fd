// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"strings"
	"testing"
	"time"
)

// The section titles must match: the reference's test suites and scripts search for
// them.
func TestTheStatusOfAParentTellsOfItsChildrenUnderTheKnownTitles(t *testing.T) {
	list := `[{"ID":"%","Type":"batch","Status":"running"},
		{"ID":"%/one","ParentID":"%","Type":"batch","Status":"dead","SubmitTime":1795246573000000000},
		{"ID":"%/other","ParentID":"","Type":"batch","Status":"running"}]`
	answers := func(id, parent, children string) map[string]string {
		return map[string]string{
			"GET /v1/jobs":                    children,
			"GET /v1/job/" + id:               parent,
			"GET /v1/job/" + id + "/summary":  `{"JobID":"` + id + `","Children":{"Pending":1,"Running":2,"Dead":3}}`,
			"GET /v1/job/" + id + "/versions": `{"Versions":[]}`,
		}
	}
	cron := `{"ID":"cron","Name":"cron","Type":"batch","Status":"running","Periodic":{"Enabled":true,"Spec":"@daily","SpecType":"cron","TimeZone":"UTC"}}`
	param := `{"ID":"param","Name":"param","Type":"batch","Status":"running","ParameterizedJob":{"Payload":"optional","MetaRequired":["who"]}}`
	for _, c := range []struct {
		id, parent, children string
		has, lacks           []string
	}{
		{"cron", cron, strings.ReplaceAll(list, "%", "cron"),
			[]string{"\nPeriodic\n", "\nChildren Job Summary\nPending  Running  Dead\n1        2        3\n", "\nPreviously Launched Jobs\nID        Status  Submit Date\ncron/one  dead    "},
			[]string{"Dispatched Jobs", "Parameterized Job", "cron/other"}},
		{"param", param, strings.ReplaceAll(list, "%", "param"),
			[]string{"\nParameterized Job\n", "\nParameterized Job Summary\nPending  Running  Dead\n1        2        3\n", "\nDispatched Jobs\nID         Status  Submit Date\nparam/one  dead    "},
			[]string{"Previously Launched Jobs", "Children Job Summary", "param/other"}},
		{"cron", cron, `[{"ID":"cron","Type":"batch","Status":"running"}]`,
			[]string{"\nNo instances of periodic job found\n"}, []string{"Previously Launched Jobs"}},
		{"param", param, `[{"ID":"param","Type":"batch","Status":"running"}]`,
			[]string{"\nNo dispatched instances of parameterized job found\n"}, []string{"Dispatched Jobs"}},
	} {
		r := execute(t, answers(c.id, c.parent, c.children), "job", "status", c.id)
		if r.code != 0 {
			t.Errorf("%s: exit code %d: %s", c.id, r.code, r.err)
		}
		for _, text := range c.has {
			if !strings.Contains(r.out, text) {
				t.Errorf("%s: %q is not in\n%s", c.id, text, r.out)
			}
		}
		for _, text := range c.lacks {
			if strings.Contains(r.out, text) {
				t.Errorf("%s: %q is in\n%s", c.id, text, r.out)
			}
		}
	}
}

func TestAPeriodicJobTellsWhenItIsLaunchedNext(t *testing.T) {
	job := func(more string) string {
		return `{"ID":"web","Namespace":"default","Name":"web","Type":"batch","Periodic":{"Enabled":true,"SpecType":"cron","Specs":["0 0 1 1 *"],"TimeZone":"UTC"}` + more + `}`
	}
	next := time.Date(time.Now().UTC().Year()+1, 1, 1, 0, 0, 0, 0, time.UTC).Local().Format(time.RFC3339)
	answers := map[string]string{"GET /v1/job/web": job(""), "GET /v1/jobs": `[{"ID":"web","Namespace":"default"}]`, "GET /v1/job/web/summary": "{}", "PUT /v1/jobs": `{"JobModifyIndex":3}`}
	for line, want := range map[string]string{
		"job status web":    "Next Periodic Launch = " + next,
		"job run -":         "Approximate next launch time: " + next,
		"job run -detach -": "Approximate next launch time: " + next,
	} {
		if r := execute(t, answers, strings.Fields(line)...); r.code != 0 || !strings.Contains(r.out, want) || !strings.Contains(r.out, " from now)") {
			t.Errorf("%s: %d, %s%s", line, r.code, r.out, r.err)
		}
	}
	answers["GET /v1/job/web"] = job(`,"Stop":true`)
	if r := execute(t, answers, "job", "status", "web"); !strings.Contains(r.out, "Next Periodic Launch = none") {
		t.Errorf("a stopped one: %s", r.out)
	}
}
