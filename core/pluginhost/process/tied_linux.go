// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// tiedStarts starts commands on one thread, which ends only with this process: the kernel
// kills a tied process when the thread that has started it ends.
var tiedStarts = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread() // and never unlock it
		for start := range work {
			start()
		}
	}()
	return work
})

// startTied starts a command that the kernel kills when this process has ended, however
// that ends. It does not work for executables that change their user.
func startTied(cmd *exec.Cmd) error {
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL // detach has set the attributes
	started := make(chan error, 1)
	tiedStarts() <- func() { started <- cmd.Start() }
	return <-started
}
