// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// kept returns the output of a task that the daemon keeps.
func (n *node) kept(id string, q driver.LogQuery) (string, error) {
	var out bytes.Buffer
	err := n.d.ReadLogs(n.t.Context(), id, q, func(p driver.LogPiece) error {
		out.Write(p.Data)
		return nil
	})
	return out.String(), err
}

func TestTheDaemonsCopyOfTheOutputIsReadWithEachLogDriverThatKeepsOne(t *testing.T) {
	for name, reads := range map[string]bool{"json-file": true, "local": true, "none": false} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, map[string]any{"disable_log_collection": true})
			task := n.task(with(script("echo one; printf two; echo aside >&2"), map[string]any{"logging": map[string]any{"type": name}}))
			n.run(task)
			out, err := n.kept(task.ID, driver.LogQuery{Stream: driver.LogStdout, Follow: true})
			if !reads {
				if !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "json-file, local or journald") {
					t.Errorf("%q, %v", out, err)
				}
				return
			}
			aside, aerr := n.kept(task.ID, driver.LogQuery{Stream: driver.LogStderr, Offset: 3, FromEnd: true})
			if err != nil || aerr != nil || out != "one\ntwo" || aside != "de\n" {
				t.Errorf("stdout %q, %v; end of stderr %q, %v", out, err, aside, aerr)
			}
		})
	}
}

func TestAFollowerOfTheDaemonsCopyGetsNoLineTwiceAndReachesTheEndWhileFilesRotate(t *testing.T) {
	n := newNode(t, map[string]any{"disable_log_collection": true, "logging": map[string]any{"config": map[string]any{"max-size": "64k", "max-file": "20"}}})
	const lines = 12000
	task := n.task(script(fmt.Sprintf(`sleep 1; i=0; while [ $i -lt %d ]; do i=$((i+1)); echo "line $i of a task that writes much"; [ $((i%%1000)) = 0 ] && sleep 0.2; done; exit 0`, lines)))
	n.run(task)
	reader, writer := io.Pipe()
	var reading sync.WaitGroup
	reading.Go(func() {
		err := n.d.ReadLogs(t.Context(), task.ID, driver.LogQuery{Stream: driver.LogStdout, Follow: true}, func(p driver.LogPiece) error {
			_, err := writer.Write(p.Data)
			return err
		})
		_ = writer.CloseWithError(err)
	})
	body, err := io.ReadAll(reader)
	reading.Wait()
	if err != nil {
		t.Fatal(err)
	}
	// The daemon itself may skip lines to a follower while it rotates fast.
	last := 0
	for line := range strings.Lines(string(body)) {
		number := 0
		if _, err := fmt.Sscanf(line, "line %d of a task that writes much\n", &number); err != nil || number <= last {
			t.Fatalf("after line %d comes %q: %v", last, line, err)
		}
		last = number
	}
	if last != lines {
		t.Errorf("the last line is %d, want %d", last, lines)
	}
}

func TestTheLogFilesOfATaskAreThereWhenItsStartReturns(t *testing.T) {
	n := newNode(t, nil)
	task := n.task(script("sleep 100"))
	n.run(task)
	for _, path := range []string{task.Logs.StdoutPath, task.Logs.StderrPath} {
		if _, err := os.Stat(path + ".0"); err != nil {
			t.Error(err)
		}
	}
}
