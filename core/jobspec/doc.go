// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package jobspec reads job files (HCL2) and job documents (JSON) into drafts,
// in which what is unset is nil, and turns a draft into a canonical model.Job.
//
// It owns the language of job files (blocks, variables, locals, dynamic
// blocks, functions), the messages about mistakes in them with file, line and
// column, and every default of a job: no other package fills in an unset
// value. It does not own the rules of a valid job (model.Job.Validate) and
// talks to nobody.
//
// core/endpoint, core/api and cmd/drover may import it. It is the only user of
// hashicorp/hcl for job files.
package jobspec
