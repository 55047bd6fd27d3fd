// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package serve

import "github.com/drover-project/drover/core/rpc"

// checkResult is the result of a check, as the public API has it.
type checkResult struct {
	Check      string
	Group      string // the name of the alloc
	ID         string
	Mode       string
	Output     string
	Service    string
	Status     string
	StatusCode int    `json:",omitempty"`
	Task       string `json:",omitempty"`
	Timestamp  int64  // seconds since 1970
}

// answerChecks answers with the results of an alloc's checks, by their ids.
func (s *Server) answerChecks(q rpc.AllocRequest, send func([]byte) error) error {
	r, err := s.cfg.Allocs.Runner(q.AllocID)
	if err != nil {
		return err
	}
	out := map[string]checkResult{}
	for _, c := range r.CheckResults() {
		out[c.ID] = checkResult{
			Check: c.Name, Group: r.Alloc().Name, ID: c.ID, Mode: c.Mode, Output: c.Output, Service: c.Service, Status: string(c.Status),
			StatusCode: c.Code, Task: c.Task, Timestamp: c.At.Unix(),
		}
	}
	return sendJSON(send, out)
}
