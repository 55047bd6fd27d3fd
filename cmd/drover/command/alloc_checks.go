// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
)

// checkResult is the last result of a check of an alloc.
type checkResult struct {
	ID, Check, Group, Mode, Output, Service, Status, Task string
	StatusCode                                            int
	Timestamp                                             int64 // Unix seconds
}

func allocChecks() spec {
	return spec{
		usage: "alloc checks [options] <allocation>", synopsis: "Shows the results of an allocation's checks", min: 1, max: 1, output: true, takes: "allocs",
		setup: func(*flag.FlagSet) run {
			return ofAlloc(nil, func(ctx context.Context, s *session, a *client.AllocDetail) error {
				var checks map[string]*checkResult
				if err := s.client.AllocationChecks(ctx, a.ID, &checks); err != nil {
					return err
				}
				if done, err := s.formatted(checks); done {
					return err
				}
				if len(checks) == 0 {
					s.printf("Allocation %s has no checks", s.id(a.ID))
					return nil
				}
				s.title("Status of %d Nomad Service Checks", len(checks))
				for _, id := range slices.Sorted(maps.Keys(checks)) {
					c := checks[id]
					kv := []string{"ID", s.id(c.ID), "Name", c.Check, "Group", c.Group, "Task", taskOf(c), "Service", c.Service, "Status", c.Status}
					if c.StatusCode > 0 {
						kv = append(kv, "StatusCode", strconv.Itoa(c.StatusCode))
					}
					kv = append(kv, "Mode", c.Mode, "Timestamp", date(c.Timestamp*int64(time.Second)), "Output", c.Output)
					s.printf("")
					s.pairs(kv...)
				}
				return nil
			})
		},
	}
}

// taskOf names what a check belongs to.
func taskOf(c *checkResult) string { return cmp.Or(c.Task, "(group)") }

// checkTable prints the status of the checks of an alloc that runs, if it has any.
func (s *session) checkTable(ctx context.Context, a *model.Allocation) {
	if a.ClientStatus != model.AllocClientStatusRunning || !hasChecks(a) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, nowLimit)
	defer cancel()
	var checks map[string]*checkResult
	if err := s.client.AllocationChecks(ctx, a.ID, &checks); err != nil {
		fmt.Fprintf(s.Err, "Couldn't retrieve the results of checks: %s\n", client.Text(err))
		return
	}
	if len(checks) == 0 {
		return
	}
	var rows [][]string
	for _, c := range checks {
		rows = append(rows, []string{c.Service, taskOf(c), c.Check, c.Mode, c.Status})
	}
	slices.SortFunc(rows, func(a, b []string) int { return strings.Compare(strings.Join(a, "\x00"), strings.Join(b, "\x00")) })
	s.title("\nNomad Service Checks")
	s.table([]string{"Service", "Task", "Name", "Mode", "Status"}, rows)
}

func hasChecks(a *model.Allocation) bool {
	if a.Job == nil {
		return false
	}
	has := func(s *model.Service) bool { return len(s.Checks) > 0 }
	tg := a.Job.LookupTaskGroup(a.TaskGroup)
	return tg != nil && (slices.ContainsFunc(tg.Services, has) || slices.ContainsFunc(tg.Tasks, func(t *model.Task) bool { return slices.ContainsFunc(t.Services, has) }))
}
