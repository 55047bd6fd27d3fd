// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package template renders the templates of a task. It owns the functions that
// templates may use, the limits within which they run, the rendered files, and the
// watch that renders them again when their inputs have changed and reports what the
// task must do then (restart, signal, script). It fetches no data itself: variables
// and services come from a Source. It does not start, signal or restart tasks:
// core/agent/alloc acts on a Change. Only core/agent and packages below it may import
// it.
//
// The limits of a template (docs/adr/0006-templates.md) are steps, time, depth, bytes
// of output and bytes of all values created while it runs. A check is inserted at the
// beginning of each loop body and each named template of the parsed text, so a
// template stops when its time is up, and no goroutine is left behind.
package template
