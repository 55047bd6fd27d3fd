// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"testing"
	"time"
)

// A leader that asks for a full report has not taken the one that it got. Until it has taken a
// report, it may give the nodes of the server up, so the server must grant no leases.
func TestAServerHasNoContactUntilTheLeaderHasTakenAReport(t *testing.T) {
	const lease = time.Minute
	begun := time.Unix(1000, 0)
	h := newHearing("s", "boot", lease/2, begun)
	h.answered(begun, ReportAnswer{}, nil)
	later := begun.Add(time.Hour)
	if h.report(later); !h.cutOff(later, lease) {
		t.Error("a server that was not answered for an hour has contact")
	}
	if h.answered(later, ReportAnswer{Again: true}, nil); !h.cutOff(later, lease) {
		t.Error("a server whose report was not taken has contact")
	}
	if full := h.report(later); !full.Full {
		t.Error("the next report is not a full one")
	}
	if h.answered(later, ReportAnswer{}, nil); h.cutOff(later, lease) {
		t.Error("a server whose report was taken has no contact")
	}
}
