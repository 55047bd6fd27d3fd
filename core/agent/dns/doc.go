// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package dns is the DNS server of an agent: it answers questions about services of the
// cluster, and passes all others on to other resolvers. It owns the names of services in DNS,
// the messages, and the limits that protect the agent and the servers from clients. It does not
// own the services: it asks a Source for them, and keeps an answer up to date as long as
// clients ask for that service. Only core/agent may import it.
package dns
