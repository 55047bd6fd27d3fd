// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverexec_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	driver "github.com/drover-project/drover/sdk/driver/v1"
)

func TestSecretsOfATaskAreInNoFileAndCommandsHaveThemAlsoAfterTheSupervisorWasKilled(t *testing.T) {
	eachOf(t, func(t *testing.T, c *cell, _ func(*driver.TaskConfig) string) {
		const secret = "of-nobody-else-8142"
		task := c.task("secrets", sh("sleep 600"))
		task.Env["BOTH"] = "plain"
		task.SecretEnv = driver.Secrets{"TOKEN": secret, "BOTH": secret, "EMPTY": ""}
		c.start(task)
		asked := func(when string) {
			t.Helper()
			out, r, err := c.exec(task, "/bin/sh", "-c", `echo "$TOKEN $BOTH ${EMPTY-unset}"`)
			if err != nil || r.ExitCode != 0 || out != secret+" "+secret+" \n" {
				t.Errorf("%s a command sees %q, %+v, %v", when, out, r, err)
			}
			hasNowhere(t, c.dir, secret)
		}
		asked("at first")
		_, hello := c.supervised()
		if err := syscall.Kill(hello.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		asked("after the supervisor was killed")
	})
}

// hasNowhere fails the test if a file below dir has the text.
func hasNowhere(t *testing.T, dir, text string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil // it is gone, or a pipe
		}
		files++
		body, err := os.ReadFile(path)
		if err == nil && bytes.Contains(body, []byte(text)) {
			t.Errorf("%s has the secret", path)
		}
		return nil
	})
	if err != nil || files == 0 {
		t.Errorf("%d files were read: %v", files, err)
	}
}
