// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"strings"
	"testing"
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
