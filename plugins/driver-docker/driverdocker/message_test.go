// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/sdk/tasklog"
)

func stamp(at int64) string {
	return time.Unix(0, at).UTC().Format("2006-01-02T15:04:05.000000000Z")
}

func frame(stream byte, at int64, text string) string {
	body := stamp(at) + " " + text
	head := []byte{stream, 0, 0, 0, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(head[4:], uint32(len(body)))
	return string(head) + body
}

func readAll(t *testing.T, raw bool, stream string) (out []message, err error) {
	t.Helper()
	r := newMessageReader(strings.NewReader(stream), raw)
	for {
		m, err := r.next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		m.text = bytes.Clone(m.text)
		out = append(out, m)
	}
}

func TestMessagesAreTakenApart(t *testing.T) {
	got, err := readAll(t, false, frame(1, 5, "a\n")+frame(2, 6, "no end")+frame(1, 7, "\n"))
	if want := "[{0 5 a\n} {1 6 no end} {0 7 \n}]"; err != nil || said(got) != want {
		t.Errorf("framed: %s, %v; want %s", said(got), err, want)
	}
	part := strings.Repeat("x", linePart)
	got, err = readAll(t, true, stamp(5)+" a\n"+stamp(6)+" "+part+stamp(6)+" rest\n"+stamp(7)+" end")
	if want := "[{0 5 a\n} {0 6 " + part + "} {0 6 rest\n} {0 7 end}]"; err != nil || said(got) != want {
		t.Errorf("raw: %d messages, %v", len(got), err)
	}
}

func said(list []message) string {
	var out []string
	for _, m := range list {
		out = append(out, fmt.Sprintf("{%d %d %s}", m.output, m.time, m.text))
	}
	return "[" + strings.Join(out, " ") + "]"
}

func FuzzMessagesNeverBreakTheReader(f *testing.F) {
	f.Add(true, []byte(stamp(5)+" a\n"))
	f.Add(false, []byte(frame(1, 5, "a\n")))
	f.Add(false, []byte{1, 0, 0, 0, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, raw bool, stream []byte) {
		r := newMessageReader(bytes.NewReader(stream), raw)
		for range len(stream) + 1 { // each message has at least one byte
			if m, err := r.next(); err != nil {
				return
			} else if len(m.text) > len(stream) || m.output > 1 {
				t.Fatalf("%d bytes of %d for output %d", len(m.text), len(stream), m.output)
			}
		}
		t.Fatal("more messages than bytes")
	})
}

// logged is a copier with a fake daemon.
type logged struct {
	t    *testing.T
	dir  string
	task *task
}

// streamOf returns a stream of the daemon with this text.
func streamOf(text string) *stream {
	r := bufio.NewReader(strings.NewReader(text))
	return &stream{body: r, buffered: r, end: func() error { return nil }}
}

func newLogged(t *testing.T) *logged {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"logs", cursorDir} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	x := newTask("t", &daemon{log: hclog.NewNullLogger(), events: newBroadcast()}, handleState{
		Container: "c1", Logs: logsTarget{Root: dir, Stdout: filepath.Join(dir, "logs", "o"), Stderr: filepath.Join(dir, "logs", "e"), MaxFiles: 9},
	})
	return &logged{t: t, dir: dir, task: x}
}

// read copies a stream as a new process does. If killed is true, the process dies
// after it has written the output and before it stores its position.
func (l *logged) read(stream string, killed bool) {
	l.t.Helper()
	c, err := openCopier(l.t.Context(), l.task, l.dir)
	if err != nil {
		l.t.Fatal(err)
	}
	defer c.close()
	note, err := os.ReadFile(cursorPath(l.dir, "c1"))
	if err != nil {
		l.t.Fatal(err)
	}
	for _, o := range c.out {
		o.begin()
	}
	if err := c.read(l.t.Context(), streamOf(stream)); err != nil {
		l.t.Fatal(err)
	}
	if killed {
		if err := os.WriteFile(cursorPath(l.dir, "c1"), note, 0o600); err != nil {
			l.t.Fatal(err)
		}
	}
}

func (l *logged) want(out, errs string) {
	l.t.Helper()
	for name, want := range map[string]string{"o.0": out, "e.0": errs} {
		if body, err := os.ReadFile(filepath.Join(l.dir, "logs", name)); err != nil || string(body) != want {
			l.t.Errorf("%s has %q, %v; want %q", name, body, err, want)
		}
	}
}

func TestAStreamThatIsReadAgainAddsOnlyWhatIsNew(t *testing.T) {
	l := newLogged(t)
	first := frame(1, 5, "a\n") + frame(1, 6, "b1\n") + frame(1, 6, "b2\n") + frame(2, 6, "e1\n")
	l.read(first, false)
	l.want("a\nb1\nb2\n", "e1\n")
	l.read(first, false)
	l.want("a\nb1\nb2\n", "e1\n")
	l.read(first+frame(1, 6, "b3\n")+frame(2, 5, "late\n")+frame(1, 7, "c\n")+frame(2, 8, "e2\n"), false)
	l.want("a\nb1\nb2\nb3\nc\n", "e1\ne2\n")
}

func TestWhatWasWrittenJustBeforeADeathIsNotWrittenAgain(t *testing.T) {
	l := newLogged(t)
	l.read(frame(1, 5, "a\n"), false)
	all := frame(1, 5, "a\n") + frame(1, 6, "bcd\n") + frame(1, 6, "e\n") + frame(2, 7, "x\n")
	l.read(all, true)
	l.want("a\nbcd\ne\n", "x\n")
	l.read(all+frame(1, 8, "f\n"), true)
	l.want("a\nbcd\ne\nf\n", "x\n")
	// Simulate a message that was only half written.
	if err := os.Truncate(filepath.Join(l.dir, "logs", "o.0"), 4); err != nil {
		t.Fatal(err)
	}
	l.read(all+frame(1, 8, "f\n"), false)
	l.want("a\nbcd\ne\nf\n", "x\n")
}

func TestWhatTheDaemonThrewAwayHidesNothingNew(t *testing.T) {
	l := newLogged(t)
	parts := []string{"p1", "p2", "p3", "p4", "p5"} // parts of one line, which have the same time
	var before, after strings.Builder
	for _, p := range parts[:4] {
		before.WriteString(frame(1, 5, p))
	}
	for _, p := range parts[3:] { // the daemon has discarded p1 to p3
		after.WriteString(frame(1, 5, p))
	}
	l.read(before.String(), false)
	l.read(after.String()+frame(1, 9, "\n"), false)
	l.want("p1p2p3p4p5\n", "")
}

func TestWhatTheDaemonThrewAwayOfOneOutputDoublesNothingOfTheOther(t *testing.T) {
	l := newLogged(t)
	rest := frame(1, 5, "o2\n") + frame(2, 5, "e1\n")
	l.read(frame(1, 5, "o1\n")+rest+frame(2, 5, "e2\n"), false)
	l.read(rest+frame(1, 6, "o3\n")+frame(2, 5, "e2\n")+frame(2, 6, "e3\n"), false) // it has discarded o1
	l.want("o1\no2\no3\n", "e1\ne2\ne3\n")
}

func TestWhatWasWrittenJustBeforeADeathIsNotWrittenAgainIntoTheNextFile(t *testing.T) {
	l := newLogged(t)
	l.task.state.Logs.MaxFiles, l.task.state.Logs.MaxFileBytes = 1, 6 // only the newest file is kept
	l.read(frame(1, 5, "aaa\n"), false)
	all := frame(1, 5, "aaa\n") + frame(1, 6, "bbb\n")
	l.read(all, true) // two bytes of it are in the file that was removed
	l.read(all+frame(1, 7, "c\n"), false)
	if body, err := os.ReadFile(filepath.Join(l.dir, "logs", "o.1")); err != nil || string(body) != "b\nc\n" {
		t.Errorf("the newest file has %q, %v", body, err)
	}
}

func TestAClockThatIsSetBackHidesNothing(t *testing.T) {
	l := newLogged(t)
	l.read(frame(1, 100, "a\n")+frame(1, 50, "b\n")+frame(1, 51, "c\n"), false)
	l.want("a\nb\nc\n", "")
}

func TestTheCursorSurvivesAndADamagedOneCountsAsUnknown(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, cursorDir), 0o755); err != nil {
		t.Fatal(err)
	}
	want := [2]mark{{time: 7, seen: 2, sum: 9, at: tasklog.Position{Index: 3, Offset: 1 << 40}}, {time: 8}}
	for _, step := range []struct {
		name  string
		known bool
		then  func(f *os.File) error
	}{
		{"a new one", false, func(f *os.File) error { return writeCursor(f, want) }},
		{"a written one", true, func(f *os.File) error { _, err := f.WriteAt([]byte{1}, 3); return err }},
		{"a damaged one", false, func(*os.File) error { return nil }},
	} {
		f, err := lockCursor(t.Context(), dir, "c")
		if err != nil {
			t.Fatal(err)
		}
		got, known, err := readCursor(f)
		if err != nil || known != step.known || known && got != want {
			t.Errorf("%s: read %+v, %v, %v", step.name, got, known, err)
		}
		if err := step.then(f); err != nil {
			t.Fatal(err)
		}
		_ = f.Close() // written above
	}
}

func TestAnOutputIsCopiedByOneProcessAtATime(t *testing.T) {
	l := newLogged(t)
	old, err := openCopier(t.Context(), l.task, l.dir)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 3*lockRetry)
	defer cancel()
	if _, err := openCopier(short, l.task, l.dir); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second one while the first copies: %v", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.read(frame(1, 5, "a\n")+frame(1, 6, "b\n"), false) // waits for the lock
	}()
	for _, o := range old.out {
		o.begin()
	}
	if err := old.read(t.Context(), streamOf(frame(1, 5, "a\n"))); err != nil {
		t.Fatal(err)
	}
	old.close()
	<-done
	l.want("a\nb\n", "")
}

func TestAProcessKnowsWhetherItIsTheOnlyOne(t *testing.T) {
	dir := t.TempDir()
	one, err := openPresence(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer one.close()
	for range 2 { // querying has no side effects
		if !one.alone() {
			t.Error("it is alone and does not know")
		}
	}
	two, err := openPresence(dir)
	if err != nil {
		t.Fatal(err)
	}
	if one.alone() || two.alone() {
		t.Error("there are two, and one of them believes to be alone")
	}
	if err := two.close(); err != nil {
		t.Fatal(err)
	}
	if !one.alone() {
		t.Error("the other one has ended, and it does not know")
	}
}
