// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package supervised

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
)

// eventCheck is how often tasks are looked at for something to tell their users.
const eventCheck = 5 * time.Second

// TaskEvents implements driver.Driver: what there is to tell is that
// output of a task cannot be kept.
func (t *Tasks) TaskEvents(ctx context.Context) (<-chan driver.TaskEvent, error) {
	out := make(chan driver.TaskEvent)
	go func() {
		defer close(out)
		tick := time.NewTicker(eventCheck)
		defer tick.Stop()
		told := map[string]uint64{} // by task, how much was dropped
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			now := map[string]uint64{}
			for _, s := range t.Running(ctx) {
				now[s.ID] = s.DroppedLogBytes
				if s.DroppedLogBytes == told[s.ID] {
					continue
				}
				select {
				case out <- logEvent(s, s.DroppedLogBytes-told[s.ID]):
				case <-ctx.Done():
					return
				}
			}
			told = now
		}
	}()
	return out, nil
}

func logEvent(s supervisor.Status, dropped uint64) driver.TaskEvent {
	return driver.TaskEvent{
		TaskID: s.ID, Time: time.Now(),
		Message:     fmt.Sprintf("%d bytes of output were dropped: %s; make room for the alloc's log files", dropped, s.LogError),
		Annotations: map[string]string{"dropped_log_bytes": strconv.FormatUint(s.DroppedLogBytes, 10)},
	}
}
