// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

// JobSubmission is the job file of a version of a job, stored so that users can read
// and edit what they wrote.
type JobSubmission struct {
	Source         string            // text of the job file
	Format         string            // "hcl2" or "json"
	VariableFlags  map[string]string // -var NAME=VALUE
	Variables      string            // text of variable files
	Namespace      string
	JobID          string
	Version        uint64
	JobModifyIndex uint64
}
