// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverqemu

import (
	"context"
	"sync"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
)

const (
	// pingEvery is the interval at which guest agents are pinged.
	pingEvery = 10 * time.Second
	// pingLimit is the time after which a guest agent counts as not answering.
	pingLimit = time.Second
	// pingsAtOnce is the number of concurrent pings.
	pingsAtOnce = 8
)

// TaskEvents implements driver.Driver. It emits the events that all drivers have,
// such as lost output, and an event when a guest agent starts or stops answering.
func (d *Driver) TaskEvents(ctx context.Context) (<-chan driver.TaskEvent, error) {
	lost, err := d.Tasks.TaskEvents(ctx)
	if err != nil {
		return nil, err
	}
	out := make(chan driver.TaskEvent)
	go func() {
		defer close(out)
		tick := time.NewTicker(pingEvery)
		defer tick.Stop()
		for {
			var news []driver.TaskEvent
			select {
			case e, ok := <-lost:
				if !ok {
					return
				}
				news = append(news, e)
			case <-tick.C:
				news = d.pingAll(ctx)
			case <-ctx.Done():
				return
			}
			for _, e := range news {
				select {
				case out <- e:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return out, nil
}

// pingAll pings the guest agents of all VMs and returns an event for each change.
func (d *Driver) pingAll(ctx context.Context) []driver.TaskEvent {
	d.mu.Lock()
	launches := map[string]*launch{}
	for id, l := range d.launches {
		if l.GuestAgent {
			launches[id] = l
		}
	}
	d.mu.Unlock()
	if len(launches) == 0 {
		return nil
	}
	running := map[string]bool{}
	for _, s := range d.Running(ctx) {
		running[s.ID] = true
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var news []driver.TaskEvent
	slots := make(chan struct{}, pingsAtOnce)
	for id, l := range launches {
		if !running[id] {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			answers := ping(ctx, l)
			<-slots
			if e, ok := d.heard(id, answers); ok {
				mu.Lock()
				defer mu.Unlock()
				news = append(news, e)
			}
		})
	}
	wg.Wait()
	return news
}

// heard records whether a guest agent answers. ok is true if that has changed.
func (d *Driver) heard(id string, answers bool) (e driver.TaskEvent, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.guests[id]
	if d.launches[id] == nil || before == answers {
		return e, false
	}
	d.guests[id] = answers
	e = driver.TaskEvent{TaskID: id, Time: time.Now(), Message: "the guest agent answers", Annotations: map[string]string{"guest_agent": "up"}}
	if !answers {
		e.Message, e.Annotations["guest_agent"] = "the guest agent does not answer any more", "down"
	}
	return e, true
}

// ping reports whether the guest agent of a VM answers.
func ping(ctx context.Context, l *launch) bool {
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	m, err := openGuestAgent(ctx, l)
	if err != nil {
		return false
	}
	defer m.close()
	return m.command("guest-ping", nil, nil) == nil
}

// InspectTask implements driver.Driver.
func (d *Driver) InspectTask(ctx context.Context, id string) (*driver.TaskStatus, error) {
	s, err := d.Tasks.InspectTask(ctx, id)
	if err != nil || s.State != driver.TaskRunning {
		return s, err
	}
	l, err := d.launchOf(ctx, id)
	if err != nil {
		return nil, err
	}
	s.Attributes["emulator"] = l.Emulator
	limited, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	if m, err := openQMP(limited, l); err == nil {
		var status struct {
			Status string `json:"status"`
		}
		if m.command("query-status", nil, &status) == nil {
			s.Attributes["machine"] = status.Status
			s.Paused = status.Status == statusPaused || status.Status == statusWritten
		}
		m.close()
	}
	if l.GuestAgent {
		s.Attributes["guest_agent"] = "down"
		if ping(ctx, l) {
			s.Attributes["guest_agent"] = "up"
		}
	}
	return s, nil
}
