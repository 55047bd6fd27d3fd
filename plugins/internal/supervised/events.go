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

// eventCheck is the interval at which tasks are checked for events.
const eventCheck = 5 * time.Second

// TaskEvents implements driver.Driver. It emits an event when output of a task was
// lost, and when a process of a task that still runs was killed because the task ran
// out of memory.
func (t *Tasks) TaskEvents(ctx context.Context) (<-chan driver.TaskEvent, error) {
	out := make(chan driver.TaskEvent)
	go func() {
		defer close(out)
		tick := time.NewTicker(eventCheck)
		defer tick.Stop()
		told := map[string]troubles{} // by task
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			events, now := t.news(ctx, told)
			for _, e := range events {
				select {
				case out <- e:
				case <-ctx.Done():
					return
				}
			}
			told = now
		}
	}()
	return out, nil
}

// news returns the events since the counts in told, and the new counts.
func (t *Tasks) news(ctx context.Context, told map[string]troubles) (events []driver.TaskEvent, now map[string]troubles) {
	now = map[string]troubles{}
	running := t.Running(ctx)
	kills := supervisor.OOMKills(running)
	for _, s := range running {
		before := told[s.ID]
		// If a count cannot be read now, the previous one is kept.
		n := troubles{dropped: max(s.DroppedLogBytes, before.dropped), killed: max(kills[s.ID], before.killed)}
		now[s.ID] = n
		if n.dropped > before.dropped {
			events = append(events, logEvent(s, n.dropped-before.dropped))
		}
		if n.killed > before.killed {
			events = append(events, oomEvent(s, n.killed-before.killed))
		}
	}
	return events, now
}

// troubles counts the problems of a task.
type troubles struct{ dropped, killed uint64 }

func oomEvent(s supervisor.Status, killed uint64) driver.TaskEvent {
	return driver.TaskEvent{
		TaskID: s.ID, Time: time.Now(),
		Message:     fmt.Sprintf("OOM Killed: the kernel killed %d of the task's processes, since the task is out of memory; the task keeps running. Raise its memory or memory_max", killed),
		Annotations: map[string]string{"oom_killed_processes": strconv.FormatUint(killed, 10)},
	}
}

func logEvent(s supervisor.Status, dropped uint64) driver.TaskEvent {
	return driver.TaskEvent{
		TaskID: s.ID, Time: time.Now(),
		Message:     fmt.Sprintf("%d bytes of output were dropped: %s; the disk of the log files must have room, and tasks must leave the folder alloc/logs as it is", dropped, s.LogError),
		Annotations: map[string]string{"dropped_log_bytes": strconv.FormatUint(s.DroppedLogBytes, 10)},
	}
}
