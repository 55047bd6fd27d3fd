// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec_test

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestAWrongTypeInAJobDocumentIsNamedByItsPath(t *testing.T) {
	for body, want := range map[string]string{
		`{"Priority":"high"}`:                                 "Job.Priority must be a whole number, not text",
		`{"Job":{"Priority":"high"}}`:                         "Job.Priority must be a whole number, not text",
		`{"TaskGroups":[{"Count":1},{"Count":"two"}]}`:        "Job.TaskGroups[1].Count must be a whole number, not text",
		`{"TaskGroups":[{"Tasks":[{"Env":{"A":1}}]}]}`:        `Job.TaskGroups[0].Tasks[0].Env["A"] must be text, not 1`,
		`{"TaskGroups":[{"Tasks":[{"KillTimeout":"soon"}]}]}`: `Job.TaskGroups[0].Tasks[0].KillTimeout: duration "soon": write a number with a unit, such as "30s" or "5m"`,
		`[]`:         "the document must be an object, not a list",
		`{"Job":[]}`: "Job must be an object, not a list",
	} {
		if _, err := jobspec.ParseJSON([]byte(body)); err == nil || err.Error() != want || !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s\n got %v\nwant %s", body, err, want)
		}
	}
}

func TestADocumentThatIsNotUTF8IsRefusedAndNotAltered(t *testing.T) {
	_, err := jobspec.ParseJSON([]byte("{\"ID\":\"caf\xe9\"}"))
	if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "the job document is not UTF-8 from byte 10 on; write text as UTF-8") {
		t.Error(err)
	}
}
