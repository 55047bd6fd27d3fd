// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"strings"
	"testing"
)

func TestAnAllocShowsWhatExplainsAFailedStart(t *testing.T) {
	const id = "bbbbbbbb-0000-0000-0000-000000000000"
	answers := map[string]string{
		"GET /v1/allocations": `[{"ID":"` + id + `"}]`,
		"GET /v1/allocation/" + id: `{"ID":"` + id + `","ClientStatus":"pending","TaskStates":{"web":{"State":"pending","Events":[
		  {"Type":"Driver Failure","DisplayMessage":"there is no image","Details":{"driver_error":"there is no image","reason":"image_not_found","detail.image":"web:9","retry_after":"1m0s"}}]}}}`,
	}
	const want = `there is no image (reason image_not_found, image "web:9", next try not within 1m0s)`
	for _, args := range [][]string{{"alloc", "status", id}, {"alloc", "status", "-short", id}} {
		if r := newFake(t, answers).at(t, nil, args...); r.code != 0 || !strings.Contains(r.out, want) {
			t.Errorf("exit code %d: %s\n%s", r.code, r.err, r.out)
		}
	}
}
