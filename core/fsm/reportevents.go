// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"reflect"
	"time"

	"github.com/drover-project/drover/core/model"
)

// eventForm is the encoding of a common event: its number in eventForms, a text and
// numbers, from which build creates the event.
type eventForm struct {
	typ     string
	text    func(*model.TaskEvent) string // nil if it has no text
	numbers int
	varies  bool // the numbers are different in nearly each report
	read    func(*model.TaskEvent) [3]int64
	build   func(text string, n [3]int64) model.TaskEvent
}

// eventForms may only be appended to, and a form must always build the same event
// (TestStoredEventsKeepTheirWords). Number 0 means an event without a form.
var eventForms = []eventForm{
	{},
	plain(model.EventReceived),
	plain(model.EventSetup),
	plain(model.EventStarted),
	plain(func() model.TaskEvent { return model.EventTerminated(0, 0, false, "") }),
	{typ: model.TaskTerminated, text: message, numbers: 3, read: exitOf, build: func(text string, n [3]int64) model.TaskEvent {
		return model.EventTerminated(int(n[0]), int(n[1]), n[2] != 0, text)
	}},
	{typ: model.TaskRestarting, text: restartReason, numbers: 1, varies: true,
		read:  func(e *model.TaskEvent) [3]int64 { return [3]int64{e.StartDelay} },
		build: func(text string, n [3]int64) model.TaskEvent { return model.EventRestarting(text, time.Duration(n[0])) }},
	{typ: model.TaskKilling, numbers: 1,
		read:  func(e *model.TaskEvent) [3]int64 { return [3]int64{int64(e.KillTimeout)} },
		build: func(_ string, n [3]int64) model.TaskEvent { return model.EventKilling(time.Duration(n[0])) }},
	plain(model.EventKilled),
	worded(model.TaskNotRestarting, restartReason, model.EventNotRestarting),
	worded(model.TaskRestartSignal, restartReason, model.EventRestartSignaled),
	worded(model.TaskSiblingFailed, func(e *model.TaskEvent) string { return e.FailedSibling }, model.EventSiblingFailed),
	plain(model.EventLeaderDead),
	plain(model.EventMainDead),
	plain(model.EventDownloading),
	worded(model.TaskDriverFailure, func(e *model.TaskEvent) string { return e.DriverError }, model.EventDriverFailure),
	worded(model.TaskSetupFailure, func(e *model.TaskEvent) string { return e.SetupError }, model.EventSetupFailure),
	worded(model.TaskArtifactDownloadFailed, func(e *model.TaskEvent) string { return e.DownloadError }, model.EventArtifactFailed),
	messageOf(model.TaskHookMessage),
	messageOf(model.TaskHookFailed),
	messageOf(model.TaskAllocUnhealthy),
}

// plain is the form of an event without parameters. All events that it makes share their
// Details: a state with many allocs consists of such events for a large part.
func plain(build func() model.TaskEvent) eventForm {
	common := build()
	return eventForm{typ: common.Type, build: func(string, [3]int64) model.TaskEvent { return common }}
}

func worded(typ string, text func(*model.TaskEvent) string, build func(string) model.TaskEvent) eventForm {
	return eventForm{typ: typ, text: text, build: func(text string, _ [3]int64) model.TaskEvent { return build(text) }}
}

func messageOf(typ string) eventForm {
	return worded(typ, message, func(text string) model.TaskEvent { return model.EventMessage(typ, text) })
}

func message(e *model.TaskEvent) string       { return e.Message }
func restartReason(e *model.TaskEvent) string { return e.RestartReason }

func exitOf(e *model.TaskEvent) [3]int64 {
	n := [3]int64{int64(e.ExitCode), int64(e.Signal)}
	if e.Details["oom_killed"] == "true" {
		n[2] = 1
	}
	return n
}

// parts returns the parameters of an event that a form stores.
func (f *eventForm) parts(e *model.TaskEvent) (text string, n [3]int64) {
	if f.text != nil {
		text = f.text(e)
	}
	if f.read != nil {
		n = f.read(e)
	}
	return text, n
}

func (f *eventForm) make(text string, n [3]int64, at int64) *model.TaskEvent {
	e := f.build(text, n)
	e.Time = at
	if e.Details == nil {
		e.Details = model.NoDetails()
	}
	return &e
}

// event writes an event in the first form that reproduces it, otherwise in full.
func (w *reportWriter) event(e *model.TaskEvent) error {
	for i := 1; i < len(eventForms); i++ {
		f := &eventForms[i]
		if f.typ != e.Type {
			continue
		}
		text, n := f.parts(e)
		if !reflect.DeepEqual(f.make(text, n, e.Time), e) {
			continue
		}
		w.uint(uint64(i))
		w.time(e.Time)
		if f.text != nil {
			w.text(text)
		}
		for _, v := range n[:f.numbers] {
			if f.varies {
				w.vary(v)
			} else {
				w.int(v)
			}
		}
		return nil
	}
	c := *e
	c.Time = 0
	body, err := entryCodec.Append(nil, &c)
	if err != nil {
		return err
	}
	w.uint(0)
	w.time(e.Time)
	w.text(string(body))
	return nil
}

func (r *reportReader) event() *model.TaskEvent {
	form := r.uint()
	at := r.time()
	if form >= uint64(len(eventForms)) {
		r.fail()
		return &model.TaskEvent{}
	}
	if form == 0 {
		e := r.unusual(r.text())
		e.Time = at
		return &e
	}
	f := &eventForms[form]
	text, n := "", [3]int64{}
	if f.text != nil {
		text = r.text()
	}
	for i := range f.numbers {
		if f.varies {
			n[i] = r.vary()
		} else {
			n[i] = r.int()
		}
	}
	return f.make(text, n, at)
}

// unusual decodes an event without a form. Equal events of an entry are decoded once and
// share their texts and Details.
func (r *reportReader) unusual(body string) model.TaskEvent {
	e, known := r.events[body]
	if known {
		return e
	}
	if err := entryCodec.Decode([]byte(body), &e); err != nil {
		r.fail()
	}
	e.Share()
	if r.events == nil {
		r.events = map[string]model.TaskEvent{}
	}
	r.events[body] = e
	return e
}
