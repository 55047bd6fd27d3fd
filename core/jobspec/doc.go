// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package jobspec reads job files (HCL2) and job documents (JSON) into drafts, in
// which unset values are nil, and converts a draft to a canonical model.Job.
//
// It owns the language of job files (blocks, variables, locals, dynamic blocks,
// functions), the error messages with file, line and column, and every default of a
// job: no other package fills in unset values. It does not own the validation of jobs
// (model.Job.Validate) and performs no network I/O.
//
// core/endpoint, core/api and cmd/drover may import it. It is the only user of
// hashicorp/hcl for job files.
package jobspec
