// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import "reflect"

// Cap is the maximum number of elements of one list or map of a job.
type Cap struct {
	What string
	Most int
	of   reflect.Type // type of the elements
}

// OperatorBounds limit what operators and autoscalers write apart from jobs: a namespace, a
// node pool, the message of a drain, a tag or a scaling. They are many times what people
// write: each is in the memory of each server, and of scalings the newest twenty per group.
var OperatorBounds = Bounds{Text: 64 << 10, Entries: 4096, Total: 256 << 10}

// MaxChecks is how many checks the services of a group and of its tasks may have: each
// alloc has its node run them all.
const MaxChecks = 500

// Caps are far above what people write. Every list that is not named here may have
// JobBounds.Entries. docs/limits.md has the table.
var Caps = []Cap{
	{"groups of a job", 2_000, reflect.TypeFor[*TaskGroup]()},
	{"tasks of a group", 500, reflect.TypeFor[*Task]()},
	{"constraints of a job, group, task or device", 500, reflect.TypeFor[*Constraint]()},
	{"affinities of a job, group, task or device", 500, reflect.TypeFor[*Affinity]()},
	{"spreads of a job or group", 100, reflect.TypeFor[*Spread]()},
	{"targets of a spread", 1_000, reflect.TypeFor[*SpreadTarget]()},
	{"services of a group or task", 500, reflect.TypeFor[*Service]()},
	{"checks of a service", 100, reflect.TypeFor[*ServiceCheck]()},
	{"networks of a group or task", 50, reflect.TypeFor[*NetworkResource]()},
	{"ports of a network, of each kind", 1_000, reflect.TypeFor[Port]()},
	{"volumes of a group", 500, reflect.TypeFor[*VolumeRequest]()},
	{"volume mounts of a task", 500, reflect.TypeFor[*VolumeMount]()},
	{"templates of a task", 500, reflect.TypeFor[*Template]()},
	{"artifacts of a task", 500, reflect.TypeFor[*TaskArtifact]()},
	{"devices of a task", 100, reflect.TypeFor[*RequestedDevice]()},
	{"actions of a task", 200, reflect.TypeFor[*Action]()},
	{"identities of a task", 100, reflect.TypeFor[*WorkloadIdentity]()},
	{"secrets of a task", 200, reflect.TypeFor[*Secret]()},
	{"scaling policies of a task", 10, reflect.TypeFor[*ScalingPolicy]()},
	{"dependencies of a job, group or task", 100, reflect.TypeFor[*Dependency]()},
	{"links of a job", 100, reflect.TypeFor[*JobUILink]()},
}

// JobBounds limits the total size of a job.
var JobBounds = Bounds{Text: 2 << 20, Entries: 10_000, Total: 16 << 20}

var capOf = func() map[reflect.Type]int {
	out := map[reflect.Type]int{}
	for _, c := range Caps {
		out[c.of] = c.Most
	}
	return out
}()

// checkSize rejects a job that is too large or has null entries, before any other
// check reads it.
func (j *Job) checkSize() error {
	return (&walk{bounds: &JobBounds, caps: capOf}).of("Job", j)
}
