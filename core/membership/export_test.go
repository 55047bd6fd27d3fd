// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package membership

// Queued returns the number of questions that wait to be sent.
func (m *Membership) Queued() string { return m.serf.Stats()["query_queue"] }
