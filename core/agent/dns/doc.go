// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package dns is the DNS server of an agent: it answers questions about services of the
// cluster, and passes all others on to other resolvers. It owns the names under which
// services are found, the messages, and all limits on what clients may cause. It does not own
// the services: a Source does, whose answers it keeps and follows as long as somebody asks for
// them. core/agent composes it.
package dns
