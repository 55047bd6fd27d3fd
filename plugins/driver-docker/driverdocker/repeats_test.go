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

// copied passes streams to a copier, one after another, and returns what is in the
// log file. How many of the streams were needed is returned, too.
func copied(t *testing.T, sent ...[]message) (string, int) {
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
	used := 0
	for _, messages := range sent {
		var wire strings.Builder
		for _, m := range messages {
			wire.WriteString(frame(1, m.time, string(m.text)))
		}
		for _, o := range c.out {
			o.begin()
		}
		left := streamOf(wire.String())
		if err := c.read(t.Context(), left, true); err != nil {
			t.Fatal(err)
		}
		used++
		if _, err := left.buffered.Peek(1); err != nil {
			break // it was read to its end
		}
	}
	body, err := os.ReadFile(filepath.Join(dir, "out.0"))
	if err != nil {
		t.Fatal(err)
	}
	return string(body), used
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
	long := []message{at(50, "xx"), at(50, "xx"), at(50, "end\n")}
	for name, test := range map[string]struct {
		sent streams
		want string
	}{
		"some lines":                    {streams{join(numbered(1, 9), numbered(6, 12))}, text(numbered(1, 12))},
		"more lines than it remembers":  {streams{join(numbered(1, 3*maxTimes), numbered(5, 4*maxTimes))}, text(numbered(1, 4*maxTimes))},
		"up to a long line":             {streams{join(numbered(1, 9), long, numbered(6, 9), long, numbered(60, 61))}, text(join(numbered(1, 9), long, numbered(60, 61)))},
		"up to the rest of a long line": {streams{join(numbered(1, 9), long, numbered(60, 61), long[1:], numbered(60, 62))}, text(join(numbered(1, 9), long, numbered(60, 62)))},
		"the last line":                 {streams{join(numbered(1, 9), numbered(9, 10)), join(numbered(9, 10))}, text(numbered(1, 10))},
		"the rest of a long line":       {streams{join(numbered(1, 9), long, long[2:], numbered(60, 61)), join(long, numbered(60, 61))}, text(join(numbered(1, 9), long, numbered(60, 61)))},
		"equal lines of one time":       {streams{{at(1, "a\n"), at(1, "a\n"), at(1, "a\n")}, {at(1, "a\n"), at(1, "a\n"), at(1, "a\n")}}, "a\na\na\n"},
		"a clock that was set back":     {streams{join(numbered(1001, 1009), numbered(6, 12))}, text(join(numbered(1001, 1009), numbered(6, 12)))},
	} {
		t.Run(name, func(t *testing.T) {
			got, used := copied(t, test.sent...)
			if got != test.want {
				t.Errorf("%.200q, want %.200q", got, test.want)
			}
			if used != len(test.sent) {
				t.Errorf("%d streams were opened, want %d", used, len(test.sent))
			}
		})
	}
}

// streams is the streams of a daemon one after another.
type streams [][]message

func TestAClockThatIsSetBackFarLosesNoLineOfABusyTask(t *testing.T) {
	ahead := time.Now().Add(time.Hour).UnixMilli()
	sent := join(numbered(ahead, ahead+2*maxTimes), numbered(1, 5))
	if got, _ := copied(t, sent); got != text(sent) {
		t.Errorf("%d bytes, want %d", len(got), len(text(sent)))
	}
}
