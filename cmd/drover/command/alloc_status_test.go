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

func TestPreemptionsAreShown(t *testing.T) {
	few := `{"Annotations":{"PreemptedAllocs":[{"ID":"bbbb0000-0000-0000-0000-000000000001","JobID":"low","Namespace":"dev","TaskGroup":"g","JobType":"batch"}],"DesiredTGUpdates":{"g":{"Place":1,"Preemptions":1}}}}`
	r := execute(t, map[string]string{"PUT /v1/job/web/plan": few}, "job", "plan", "-")
	for _, want := range []string{"Preemptions:", "bbbb0000  low     dev        g"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%q is missing in\n%s%s", want, r.out, r.err)
		}
	}
	many := strings.Replace(few, `[{`, `[`+strings.Repeat(`{"ID":"x","JobID":"other","Namespace":"dev","JobType":"service"},`, 11)+`{`, 1)
	r = execute(t, map[string]string{"PUT /v1/job/web/plan": many}, "job", "plan", "-")
	for _, want := range []string{"other   dev        service   11", "low     dev        batch     1"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%q is missing in\n%s%s", want, r.out, r.err)
		}
	}
	r = execute(t, map[string]string{
		"GET /v1/allocations":           `[{"ID":"` + allocID + `"}]`,
		"GET /v1/allocation/" + allocID: `{"ID":"` + allocID + `","DesiredStatus":"evict","DesiredDescription":"Preempted by alloc ID eeee","PreemptedByAllocation":"eeee0000-0000-0000-0000-000000000001","PreemptedAllocations":["ffff0000-0000-0000-0000-000000000001"]}`,
	}, "alloc", "status", "bbbb")
	for _, want := range []string{"Desired Status        = evict", "Preempted By Alloc ID = eeee0000", "Preempted Alloc IDs   = ffff0000"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%q is missing in\n%s%s", want, r.out, r.err)
		}
	}
}

func TestAnAllocShowsTheVolumesOfItsTasks(t *testing.T) {
	const id = "bbbbbbbb-0000-0000-0000-000000000000"
	r := newFake(t, map[string]string{
		"GET /v1/allocations": `[{"ID":"` + id + `"}]`,
		"GET /v1/allocation/" + id: `{"ID":"` + id + `","Name":"web.g[2]","TaskGroup":"g","ClientStatus":"running","TaskStates":{"t":{"State":"running"},"other":{"State":"running"}},
		  "Job":{"TaskGroups":[{"Name":"g","Volumes":{"v":{"Type":"csi","Source":"db","PerAlloc":true},"h":{"Type":"host","Source":"certs","ReadOnly":true},"x":{"Type":"host","Source":"unused"}},
		  "Tasks":[{"Name":"other"},{"Name":"t","VolumeMounts":[{"Volume":"v","Destination":"/data"},{"Volume":"h","Destination":"/certs"}]}]}]}}`,
	}).at(t, nil, "alloc", "status", id)
	const want = "Host Volumes:\nID     Read Only  Destination\ncerts  true       /certs\n\nCSI Volumes:\nID     Read Only  Destination\ndb[2]  false      /data\n"
	if r.code != 0 || strings.Count(r.out, want) != 1 || strings.Contains(r.out, "unused") {
		t.Errorf("exit code %d: %s\n%s", r.code, r.err, r.out)
	}
}
