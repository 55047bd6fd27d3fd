// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	pb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/driver"
)

// An executor is a process of its own for each task. It enters the cgroups that a host of the
// reference's protocol has made, starts the task, and says on file 3 whether all that worked.
// If something failed, a task that was started runs on, as with the reference's executors.

// executorMode is the first argument of an executor; the cgroups and the command follow.
const executorMode = "execute"

const cgroupRoot = "/sys/fs/cgroup"

// cgroupsOf are the cgroups that the protocol's hosts make for a task.
func cgroupsOf(c *pb.TaskConfig) []string {
	own := c.GetResources().GetLinuxResources().GetCpusetCgroup()
	if exists(filepath.Join(cgroupRoot, "cgroup.controllers")) {
		return []string{own}
	}
	out := []string{own}
	for _, controller := range []string{"freezer", "cpu", "memory"} {
		out = append(out, filepath.Join(cgroupRoot, controller, "nomad", c.GetAllocId()+"."+c.GetName()))
	}
	return out
}

// throughExecutor has an executor start the command.
func throughExecutor(c *pb.TaskConfig, command []string) (args []string, err error) {
	self, err := os.Executable()
	return append([]string{self, executorMode, strings.Join(cgroupsOf(c), ":")}, command...), err
}

// startExecutor starts an executor and waits for its word.
func startExecutor(cmd *exec.Cmd) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	cmd.ExtraFiles = []*os.File{w}
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		return err
	}
	word, err := bufio.NewReader(r).ReadString('\n')
	if err == nil && word != "ok\n" {
		err = fmt.Errorf("failed to launch command with executor: %s", strings.TrimSpace(word))
	}
	return err
}

// execute is the executor's process.
func execute(cgroups string, command []string) int {
	say := os.NewFile(3, "plugin")
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	var err error
	for _, dir := range strings.Split(cgroups, ":") {
		if err == nil {
			err = enter(dir, os.Getpid()) // what it starts from now on is there as well
		}
	}
	if serr := cmd.Start(); err == nil {
		err = serr
	}
	if err == nil && strings.Contains(strings.Join(command, " "), "fail to launch") {
		err = fmt.Errorf("told to fail")
	}
	if err != nil {
		_, _ = fmt.Fprintln(say, err)
	} else {
		_, _ = fmt.Fprintln(say, "ok")
	}
	_ = say.Close()
	_ = cmd.Wait()
	return max(cmd.ProcessState.ExitCode(), 0)
}

func enter(dir string, pid int) error {
	file, err := os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(strconv.Itoa(pid))
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	return err
}
