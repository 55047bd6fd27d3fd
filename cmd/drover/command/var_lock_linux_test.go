// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestAllThatACommandHasStartedEndsWhenItsLockIsLost also shows that an agent that hangs does
// not keep the command running longer than the lock.
func TestAllThatACommandHasStartedEndsWhenItsLockIsLost(t *testing.T) {
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.RawQuery, "lock-renew") {
			_, _ = io.Copy(io.Discard, r.Body) // else the server does not notice that the client gives up
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, `{"Path":"l","Lock":{"ID":"1"}}`)
	}))
	defer agent.Close()
	file := filepath.Join(t.TempDir(), "pid")
	// The inner shell is a child of the one that runs the command.
	cmd := exec.CommandContext(t.Context(), os.Args[0], "var", "lock", "-ttl", "1500ms", "l", `sh -c 'echo $$ >`+file+`; exec sleep 1000'; true`)
	cmd.Env = append(os.Environ(), asDrover+"="+agent.URL)
	var out bytes.Buffer
	cmd.Stderr = &out
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(out.String(), `the lock of "l" was lost, so the command was ended: the agent did not renew it within 1.5s`) {
		t.Errorf("%v: %s", err, &out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		t.Errorf("what the command has started runs without the lock: %v", err)
	}
}
