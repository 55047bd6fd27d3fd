// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pilot_test

import (
	"errors"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/autopilot/pilot"
	"github.com/drover-project/drover/core/membership"
)

func TestServersThatDoNotAnswerDelayTheLeaderOnlyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pilot.New(pilot.Config{Dial: func(address string, limit time.Duration) (net.Conn, error) {
			if address == "here" {
				conn, other := net.Pipe()
				return conn, other.Close()
			}
			time.Sleep(limit)
			return nil, errors.New(address + " is silent")
		}})
		begun := time.Now()
		got := p.KnockAll([]membership.Member{{RPC: "a"}, {RPC: "here"}, {RPC: "b"}})
		if want := []string{"a is silent", "", "b is silent"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}
