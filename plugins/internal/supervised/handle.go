// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package supervised

import (
	"encoding/json"
	"fmt"

	driver "github.com/drover-project/drover/sdk/driver/v1"
)

// handleState is the content of a handle.
type handleState struct {
	Dir string `json:"dir"` // the supervisor's directory
	PID int    `json:"pid"` // for operators only
}

const handleVersion = 1

func newHandle(id string, s handleState) (*driver.Handle, error) {
	state, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode the handle of task %q: %w", id, err)
	}
	return &driver.Handle{TaskID: id, Version: handleVersion, State: state}, nil
}
