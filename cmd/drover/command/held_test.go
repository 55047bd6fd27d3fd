// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"strings"
	"testing"
)

func TestAPlanAndAnEvaluationSayWhatWaitsForDependencies(t *testing.T) {
	const held = `"Held":{"g":{"Allocs":2,"On":["group \"db\" to be healthy: 1 of 2 allocs are"]}}`
	const words = `Group "g" waits for group "db" to be healthy: 1 of 2 allocs are; without limit`
	r := execute(t, map[string]string{"PUT /v1/job/web/plan": `{"JobModifyIndex":5,` + held + `}`}, "job", "plan", "-")
	if !strings.Contains(r.out, "- "+words+" (2 allocation(s) are placed then).") || !strings.Contains(r.out, "- All other tasks successfully allocated.") {
		t.Errorf("job plan:\n%s%s", r.out, r.err)
	}
	const eval = `{"ID":"e0000000-0000-0000-0000-000000000000","Status":"complete","JobID":"web",` + held + `}`
	r = execute(t, map[string]string{
		"GET /v1/evaluations?prefix=e0000000-0000-0000-0000-000000000000":      "[" + eval + "]",
		"GET /v1/evaluation/e0000000-0000-0000-0000-000000000000?related=true": eval,
		"GET /v1/evaluation/e0000000-0000-0000-0000-000000000000":              eval,
		"GET /v1/evaluation/e0000000-0000-0000-0000-000000000000/allocations":  "[]",
	}, "eval", "status", "e0000000-0000-0000-0000-000000000000")
	if !strings.Contains(r.out, "Dependencies\n") || !strings.Contains(r.out, words+".") {
		t.Errorf("eval status: %d\n%s%s", r.code, r.out, r.err)
	}
}
