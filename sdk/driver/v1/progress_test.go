// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"context"
	"testing"

	driverv1 "github.com/drover-project/drover/sdk/internal/pb/driver/v1"

	driver "github.com/drover-project/drover/sdk/driver/v1"
)

// reporter has two events.
type reporter struct{ driver.Driver }

func (reporter) Info() driver.Info { return driver.Info{Name: "echo"} }

func (reporter) TaskEvents(ctx context.Context) (<-chan driver.TaskEvent, error) {
	out := make(chan driver.TaskEvent, 2)
	both := filled[driver.TaskEvent]()
	only := both
	only.Message = ""
	out <- only
	out <- both
	context.AfterFunc(ctx, func() { close(out) })
	return out, nil
}

func TestProgressReachesHostsThatAskForIt(t *testing.T) {
	drivers, _ := connect(t, reporter{})
	events, err := drivers[0].TaskEvents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	only, both := <-events, <-events
	same(t, "with a message", both, filled[driver.TaskEvent]())
	both.Message = ""
	same(t, "progress alone", only, both)
}

func TestAnOldHostGetsNoEventThatIsOnlyProgress(t *testing.T) {
	conn := serve(t, driver.Service(reporter{}))
	s, err := driverv1.NewDriverClient(conn).TaskEvents(t.Context(), &driverv1.TaskEventsRequest{Driver: "echo"})
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Recv()
	if err != nil || m.GetMessage() == "" || m.GetProgress() != nil {
		t.Errorf("the first event is %v, %v", m, err)
	}
}

func TestProgressInWords(t *testing.T) {
	for want, p := range map[string]driver.Progress{
		"":          {Done: 3, Total: 4},
		"Unpacking": {Phase: "Unpacking", Unit: "layers"},
		"Downloading image: 34 % (120.0 MiB of 350.0 MiB)": {Phase: "Downloading image", Done: 120 << 20, Total: 350 << 20, Unit: driver.UnitBytes},
		"Downloading image: 0 % (0 B of 1.5 KiB)":          {Phase: "Downloading image", Total: 1536, Unit: driver.UnitBytes},
		"Downloading image: 2.0 GiB so far":                {Phase: "Downloading image", Done: 2 << 30, Unit: driver.UnitBytes},
		"Unpacking: 50 % (1 of 2 layers)":                  {Phase: "Unpacking", Done: 1, Total: 2, Unit: "layers"},
		"x: 100 % (9 of 2 parts)":                          {Phase: "x", Done: 9, Total: 2, Unit: "parts"},
	} {
		if got := p.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
