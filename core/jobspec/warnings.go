// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"fmt"
	"strings"
	"time"

	"github.com/drover-project/drover/core/cron"
	"github.com/drover-project/drover/core/model"
)

// Warnings returns warnings about valid settings that are often mistakes, and about
// every field that has no effect yet (see model.JobFields).
func Warnings(job *model.Job) []string {
	var out []string
	for _, g := range job.TaskGroups {
		if definesServices(g) && !hasShutdownDelay(g) {
			out = append(out, fmt.Sprintf("group %q defines services, but neither the group nor any of its tasks have shutdown_delay set", g.Name))
		}
	}
	if p := job.Periodic; p != nil && p.Spec != "" {
		out = append(out, "cron is deprecated and may be removed in a future release. Use crons instead")
	}
	if p := job.Periodic; p != nil && p.TimeZone == cron.Local {
		out = append(out, "periodic time_zone \"Local\" is that of the server that leads, and servers may differ: an IANA name such as \"Europe/Berlin\" does not")
	}
	if every := interval(job); every > 0 && every < frequent {
		out = append(out, fmt.Sprintf("periodic launches the job every %s; each launch is a job of its own, kept until it is garbage collected", every))
	}
	return append(out, job.NotActedOn()...)
}

// frequent is the launch interval below which a periodic job causes a warning.
const frequent = 10 * time.Second

// interval returns the shortest launch interval of a periodic job, 0 if there is none.
func interval(job *model.Job) time.Duration {
	if !job.IsPeriodic() || !job.Periodic.Enabled {
		return 0
	}
	s, err := job.Periodic.Schedule()
	if err != nil {
		return 0 // validation reports the error
	}
	return s.Interval(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) // any day will do
}

// WarningText joins the warnings of a job, and further ones of the caller, in the form
// of the API; empty if there are none.
func WarningText(job *model.Job, more ...string) string {
	warnings := append(Warnings(job), more...)
	if len(warnings) == 0 {
		return ""
	}
	noun := "warnings"
	if len(warnings) == 1 {
		noun = "warning"
	}
	lines := make([]string, len(warnings))
	for i, w := range warnings {
		lines[i] = "* " + w
	}
	return fmt.Sprintf("%d %s:\n\n%s", len(warnings), noun, strings.Join(lines, "\n"))
}

func definesServices(g *model.TaskGroup) bool {
	if len(g.Services) > 0 {
		return true
	}
	for _, t := range g.Tasks {
		if len(t.Services) > 0 {
			return true
		}
	}
	return false
}

func hasShutdownDelay(g *model.TaskGroup) bool {
	if g.ShutdownDelay != nil && *g.ShutdownDelay > 0 {
		return true
	}
	for _, t := range g.Tasks {
		if t.ShutdownDelay > 0 {
			return true
		}
	}
	return false
}
