// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package prometheus holds a live Drover agent against Prometheus, a program
// that knows only Nomad: its service discovery finds what runs, its parser reads
// the metrics. It is a module of its own so that Drover does not depend on it.
package prometheus
