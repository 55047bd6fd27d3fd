// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/sdk/tasklog"
)

// copied passes a stream of messages to a copier and returns what is in the log file.
func copied(t *testing.T, sent []message) string {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	cursor, err := os.Create(filepath.Join(dir, "cursor"))
	if err != nil {
		t.Fatal(err)
	}
	c := &copier{t: newTask("t", &daemon{events: newBroadcast(), log: hclog.NewNullLogger()}, handleState{}), dir: root, cursor: cursor}
	for i, name := range []string{"out", "err"} {
		c.out[i] = &output{w: tasklog.New(root, name, tasklog.Limits{MaxFiles: 1})}
	}
	defer c.close()
	var wire strings.Builder
	for _, m := range sent {
		wire.WriteString(frame(1, m.time, string(m.text)))
	}
	for _, o := range c.out {
		o.begin()
	}
	if err := c.read(t.Context(), streamOf(wire.String())); err != nil {
		t.Fatal(err)
	}
	body, err := os.ReadFile(filepath.Join(dir, "out.0"))
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func at(ms int64, text string) message {
	return message{time: ms * int64(time.Millisecond), text: []byte(text)}
}

// numbered returns messages with the times and numbers from first to last.
func numbered(first, last int64) (out []message) {
	for i := first; i <= last; i++ {
		out = append(out, at(i, fmt.Sprintf("line %d\n", i)))
	}
	return out
}

func join(parts ...[]message) (out []message) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

func text(messages []message) string {
	var b strings.Builder
	for _, m := range messages {
		b.Write(m.text)
	}
	return b.String()
}

func TestWhatADaemonSendsOnceMoreAfterARotationIsCopiedOnce(t *testing.T) {
	long := []message{at(50, "equal"), at(50, "equal"), at(50, "end\n")}
	for name, test := range map[string]struct {
		sent []message
		want string
	}{
		"some lines":                    {join(numbered(1, 9), numbered(6, 12)), text(numbered(1, 12))},
		"more lines than it remembers":  {join(numbered(1, 3*maxTimes), numbered(5, 4*maxTimes)), text(numbered(1, 4*maxTimes))},
		"up to a long line":             {join(numbered(1, 9), long, numbered(6, 9), long, numbered(60, 61)), text(join(numbered(1, 9), long, numbered(60, 61)))},
		"up to the rest of a long line": {join(numbered(1, 9), long, numbered(60, 61), long[1:], numbered(60, 62)), text(join(numbered(1, 9), long, numbered(60, 62)))},
		"the last line":                 {join(numbered(1, 9), numbered(9, 10)), text(numbered(1, 10))},
		"the last line, often":          {join(numbered(1, 9), numbered(9, 9), numbered(9, 9), numbered(10, 10)), text(numbered(1, 10))},
		"the rest of a long line":       {join(numbered(1, 9), long, long[1:], numbered(60, 61)), text(join(numbered(1, 9), long, numbered(60, 61)))},
		"nothing":                       {join(numbered(1, 9), long, numbered(60, 61)), text(join(numbered(1, 9), long, numbered(60, 61)))},
		"a clock that was set back":     {join(numbered(1001, 1009), numbered(6, 12)), text(join(numbered(1001, 1009), numbered(6, 12)))},
	} {
		t.Run(name, func(t *testing.T) {
			if got := copied(t, test.sent); got != test.want {
				t.Errorf("%.200q, want %.200q", got, test.want)
			}
		})
	}
}

func TestAClockThatIsSetBackFarLosesNoLineOfABusyTask(t *testing.T) {
	ahead := time.Now().Add(time.Hour).UnixMilli()
	sent := join(numbered(ahead, ahead+2*maxTimes), numbered(1, 5))
	if got := copied(t, sent); got != text(sent) {
		t.Errorf("%d bytes, want %d", len(got), len(text(sent)))
	}
}
