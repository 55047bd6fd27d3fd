// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package template renders the templates of a task: it owns the functions that
// templates may use, the bounds within which they run, the files that they
// become, and the watch that renders them again when what they read has changed
// and says what the task must then do (restart, signal, script). It fetches
// nothing itself: variables and services come from a Source. It starts, signals
// and restarts nothing: core/agent/alloc acts on a Change. Only core/agent and
// packages below it may import it.
//
// What bounds a template (docs/adr/0006-templates.md): steps, time, depth, bytes
// of output and bytes of all values made while it runs. Each loop body and each
// named template of the parsed text begins with a check that is put in before it
// runs, so no template runs on after its time and none is left behind in a
// goroutine.
package template
