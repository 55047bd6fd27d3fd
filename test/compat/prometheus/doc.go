// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package prometheus tests a live Drover agent with Prometheus, which knows only
// Nomad: its service discovery finds the running services, and its parser reads the
// metrics. It is a separate module, so that Drover does not depend on Prometheus.
package prometheus
