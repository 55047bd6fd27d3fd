// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package founding_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/autopilot/pilot"
	"github.com/drover-project/drover/core/founding"
	"github.com/drover-project/drover/core/membership"
)

func server(id string, change ...func(*membership.Member)) membership.Member {
	m := membership.Member{ID: id, Name: id + ".global", RPC: id + ":4647", Status: membership.Alive, Expect: 3, Tags: map[string]string{}}
	for _, c := range change {
		c(&m)
	}
	return m
}

func TestAClusterBeginsWithExactlyTheServersThatExpectIt(t *testing.T) {
	failed := func(m *membership.Member) { m.Status = membership.Failed }
	replica := func(m *membership.Member) { m.Tags[pilot.TagReplica] = "1" }
	kept := func(m *membership.Member) { m.Tags[founding.TagLog] = founding.LogKept }
	other := func(m *membership.Member) { m.Expect = 5 }
	for name, c := range map[string]struct {
		found []membership.Member
		why   string // part of it; "" if the cluster begins
	}{
		"all are there":                         {[]membership.Member{server("c"), server("a"), server("b")}, ""},
		"a replica and a dead one do not count": {[]membership.Member{server("c"), server("a"), server("b"), server("d", replica), server("e", failed)}, ""},
		"one is missing":                        {[]membership.Member{server("a"), server("b")}, "2 of 3 servers"},
		"one is dead":                           {[]membership.Member{server("a"), server("b"), server("c", failed)}, "2 of 3 servers"},
		"one too many":                          {[]membership.Member{server("a"), server("b"), server("c"), server("d")}, "4 servers are there"},
		"another number":                        {[]membership.Member{server("a"), server("b"), server("c", other)}, "expects 5"},
		"a copied data directory":               {[]membership.Member{server("a"), server("b"), server("a")}, "two servers have the id a"},
		"a cluster runs, and its server is dead": {[]membership.Member{server("a"), server("b"), server("c"), server("d", kept, failed)},
			"has the log of a cluster"},
	} {
		first, why := founding.Members(c.found, 3)
		if (c.why == "") != (why == "") || !strings.Contains(why, c.why) || (why == "") != (first != nil) {
			t.Errorf("%s: %v, %q", name, first, why)
		}
		if why == "" {
			var ids []string
			for _, s := range first {
				ids = append(ids, s.ID)
			}
			if !slices.Equal(ids, []string{"a", "b", "c"}) || !first[0].Voter || first[0].Address != "a:4647" {
				t.Errorf("%s: %+v", name, first)
			}
		}
	}
}
