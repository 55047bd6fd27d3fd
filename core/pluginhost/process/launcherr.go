// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"bytes"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
)

// launchError explains why a plugin did not start. go-plugin's errors have no types
// and long texts, so the class and the reason are derived from the process's exit, its
// output and its file.
func (l *Launcher) launchError(f File, cmd *exec.Cmd, state *os.ProcessState, stderr *tail, took time.Duration, cause error) error {
	said := ""
	if text := stderr.String(); text != "" {
		said = fmt.Sprintf("; it wrote: %s", text)
	}
	facts := factsOf(f.Binary())
	switch {
	case cmd.Process == nil:
		return errdefs.FailedPreconditionf("plugin %s: cannot be executed: %s (%s): %w", f.Path, executionCure(f.Binary(), cause), facts, cause)
	case took >= l.cfg.StartTimeout:
		return errdefs.DeadlineExceededf("plugin %s: no handshake within %s, so it was killed; it must call plugin.Serve at once%s", f.Path, l.cfg.StartTimeout, said)
	case state != nil && state.Exited():
		return errdefs.Unavailablef("plugin %s: ended with exit code %d before the handshake; run it by hand to see why%s (%s)",
			f.Path, state.ExitCode(), said, facts)
	case diedItself(state):
		return errdefs.Unavailablef("plugin %s: was ended (%s) before the handshake; run it by hand to see why%s (%s)", f.Path, state, said, facts)
	default:
		return errdefs.FailedPreconditionf("plugin %s: its handshake does not fit this agent, which speaks plugin protocol %d; "+
			"install a version of the plugin that does, or remove the file if it is not a plugin%s (%s): %s",
			f.Path, plugin.ProtocolVersion, said, facts, firstLine(cause))
	}
}

// maxFirstLine limits how much is quoted of a line that a plugin wrote instead of a
// handshake.
const maxFirstLine = 200

// firstLine returns the first line of an error's text: go-plugin's error quotes the
// plugin's output there and adds many lines.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	line = plain(strings.ToValidUTF8(strings.TrimSpace(line), "?"))
	if len(line) > maxFirstLine {
		line = strings.ToValidUTF8(line[:maxFirstLine], "") + "..."
	}
	return line
}

// executionCure says what to do about a file that the system does not execute.
func executionCure(path string, cause error) string {
	switch {
	case IsBusy(cause):
		return "somebody still writes to it; close it, or write under another name and rename it"
	case errors.Is(cause, fs.ErrPermission):
		return "the agent may not execute it; give it the right with chmod +x, and see that its file system is not mounted noexec"
	case errors.Is(cause, fs.ErrNotExist):
		if _, err := os.Stat(path); err == nil {
			return "the interpreter or the loader that it names is not on this machine; install that, or a plugin that is linked statically"
		}
		return "it is gone; install it again"
	}
	return "it is built for another machine, was written in part only, or is a script without #! in its first line; install a build for this machine"
}

// factsOf describes a file that cannot be executed: its mode, owner and processor
// architecture.
func factsOf(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return "no file"
	}
	return fmt.Sprintf("%s, %d bytes, mode %s%s; this machine is %s/%s", formOf(path), info.Size(), info.Mode(), ownership(info), runtime.GOOS, runtime.GOARCH)
}

// formOf returns the format of an executable and its processor, as text.
func formOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return "unreadable"
	}
	defer f.Close()
	if x, err := elf.NewFile(f); err == nil {
		return "ELF for " + strings.TrimPrefix(x.Machine.String(), "EM_")
	}
	if x, err := macho.NewFile(f); err == nil {
		return "Mach-O for " + x.Cpu.String()
	}
	if x, err := pe.NewFile(f); err == nil {
		return fmt.Sprintf("Windows executable for machine %#x", x.Machine)
	}
	head := make([]byte, 4)
	n, _ := f.ReadAt(head, 0) // a shorter file has no known format
	switch head = head[:n]; {
	case bytes.HasPrefix(head, []byte("#!")):
		return "script"
	case bytes.HasPrefix(head, []byte(elf.ELFMAG)):
		return "ELF that is damaged or was written in part"
	}
	return "no executable of a known form"
}
