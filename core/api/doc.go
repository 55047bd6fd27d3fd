// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package api is the public HTTP/JSON API of an agent: routes, parameters, headers,
// status codes, error texts, blocking queries, pagination, filters and streams. It
// uses the interfaces in backend.go, which core/endpoint (servers) and the node side
// implement. routes.go is the table of all routes. The package owns no state, makes no
// decisions about jobs and generates no ids. Only core/server, core/agent, core/endpoint
// and cmd/drover may import it.
package api
