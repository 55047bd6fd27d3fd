// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package api is the public HTTP/JSON API of an agent: routes, parameters,
// headers, status codes, error texts, blocking queries, pagination, filters,
// streams. It speaks over the interfaces of backend.go, which core/endpoint
// (servers) and the node side implement. It owns no state, decides nothing
// about jobs and mints no ids. Only core/server, core/agent, core/endpoint and
// cmd/drover may import it.
package api
