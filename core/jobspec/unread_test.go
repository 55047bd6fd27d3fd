// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec_test

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/jobspec"
)

func TestFieldsThatAJobDoesNotHaveAreNamed(t *testing.T) {
	for body, want := range map[string]string{
		`{"ID":"a","Colour":"red","TaskGroups":[{"Name":"g","Cuont":3,"Tasks":[{"Name":"t","Config":{"anything":1},"Drvier":"x","Resources":{"CPPU":5}}]}]}`: "Colour TaskGroups[0].Cuont TaskGroups[0].Tasks[0].Drvier TaskGroups[0].Tasks[0].Resources.CPPU",
		`{"Job":{"ID":"a","Meta":{"k":"v"},"type":"batch","Nothing":null,"Off":false,"None":[]}}`:                                                            "",
		`{"ID":"a","Status":"running","Version":3,"CreateIndex":4,"ModifyIndex":5,"JobModifyIndex":5,"Stable":true,"SubmitTime":6}`:                          "",
		`nonsense`: "",
	} {
		if got := strings.Join(jobspec.UnreadJSON([]byte(body)), " "); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", body, got, want)
		}
	}
}

// What answers say of a job is what clients send back when they change it.
func TestJobsAsTheReferenceShowsThemHaveNoUnknownFields(t *testing.T) {
	root := cmp.Or(os.Getenv("DROVER_COMPAT"), filepath.Join("..", "..", "..", "shared", "compat"))
	files, _ := filepath.Glob(filepath.Join(root, "jobspec", "*.json")) // the pattern is constant
	if len(files) == 0 {
		t.Skipf("no jobs under %s; set DROVER_COMPAT", root)
	}
	shown := filepath.Join(root, "http", "045-job.json")
	for _, f := range append(files, shown) {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if f == shown {
			var r struct {
				Response struct{ Body json.RawMessage }
			}
			if err := json.Unmarshal(b, &r); err != nil {
				t.Fatal(err)
			}
			b = r.Response.Body
		}
		if got := jobspec.UnreadJSON(b); len(got) > 0 {
			t.Errorf("%s: %v", filepath.Base(f), got)
		}
	}
}
