// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"testing"

	"github.com/moby/moby/api/types/jsonstream"

	driver "github.com/drover-project/drover/sdk/driver/v1"
)

func TestTheProgressOfAnImageIsThatOfTheLayersToFetch(t *testing.T) {
	var p progress
	says := func(want driver.Progress) {
		t.Helper()
		if got := p.live(); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	note := func(id, status string, current, total int64) {
		m := jsonstream.Message{ID: id, Status: status}
		if total > 0 {
			m.Progress = &jsonstream.Progress{Current: current, Total: total}
		}
		p.note(m)
	}
	fetching := func(done, total int64) driver.Progress {
		return driver.Progress{Phase: "Downloading image", Done: done, Total: total, Unit: driver.UnitBytes}
	}
	says(fetching(0, 0))
	note("1", "Pulling from shop", 0, 0)
	note("a", "Already exists", 0, 0)
	note("b", "Pulling fs layer", 0, 0)
	note("c", "Waiting", 0, 0)
	says(fetching(0, 0))
	note("b", "Downloading", 10, 100)
	says(fetching(10, 0)) // nobody knows how large c is
	note("c", "Downloading", 5, 50)
	says(fetching(15, 150))
	note("b", "Download complete", 0, 0)
	says(fetching(105, 150))
	note("b", "Extracting", 3, 100) // unpacking begins anew with a count of its own
	says(fetching(105, 150))
	note("c", "Verifying Checksum", 0, 0)
	unpacking := driver.Progress{Phase: "Unpacking image", Total: 2, Unit: "layers"}
	says(unpacking)
	note("b", "Pull complete", 0, 0)
	unpacking.Done = 1
	says(unpacking)
}
