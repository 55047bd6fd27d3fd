// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model_test

import (
	"fmt"
	"testing"

	"github.com/drover-project/drover/core/model"
)

func TestAHistoryLacksWhatWasWrittenAfterTheCopyThatItGoesOnFrom(t *testing.T) {
	var none *model.Cluster
	original := none.Begin("c", model.ClusterTerm{ID: "one", Index: 3, After: 2})
	original = original.Begin("ignored", model.ClusterTerm{ID: "two", Index: 100, After: 98})
	restored := original.Begin("", model.ClusterTerm{ID: "three", Index: 121, After: 120}) // a copy at 120
	for _, c := range []struct {
		name  string
		c     *model.Cluster
		p     model.ClusterPoint
		lacks bool
	}{
		{"nothing was seen", restored, model.ClusterPoint{}, false},
		{"nothing was seen of this cluster", restored, model.ClusterPoint{ClusterID: "c"}, false},
		{"the newest term", original, original.At(150), false},
		{"the end of an earlier term", original, model.ClusterPoint{ClusterID: "c", TermID: "one", Index: 98}, false},
		{"what the copy has", restored, original.At(120), false},
		{"what came after the copy", restored, original.At(121), true},
		{"what came after the copy, though the copy has grown since", restored, original.At(5000), true},
		{"a term that began after the copy", restored, model.ClusterPoint{ClusterID: "c", TermID: "four", Index: 110}, true},
		{"another cluster", none.Begin("d", model.ClusterTerm{ID: "one", Index: 3}), original.At(50), true},
		{"no cluster", nil, original.At(50), true},
	} {
		if got := c.c.Lacks(c.p); got != c.lacks {
			t.Errorf("%s: lacks is %v", c.name, got)
		}
	}
	if original.ID != "c" || len(original.Terms) != 2 {
		t.Errorf("the cluster became %+v", original)
	}
}

func TestAClusterRemembersABoundedNumberOfTerms(t *testing.T) {
	var c *model.Cluster
	for i := range 2 * model.MaxClusterTerms {
		c = c.Begin("c", model.ClusterTerm{ID: fmt.Sprint(i), Index: uint64(2*i + 1), After: uint64(2 * i)})
	}
	if len(c.Terms) != model.MaxClusterTerms || c.TermID() != fmt.Sprint(2*model.MaxClusterTerms-1) {
		t.Fatalf("%d terms, the newest is %s", len(c.Terms), c.TermID())
	}
	if !c.Lacks(model.ClusterPoint{ClusterID: "c", TermID: "0", Index: 1}) {
		t.Error("it vouches for a term that it has forgotten")
	}
}
