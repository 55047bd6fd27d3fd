// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package pluginhost_test

import (
	wire "encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-project/drover/core/pluginhost"
)

// foreignELF is the head of an executable for a machine that nobody has.
func foreignELF() []byte {
	head := make([]byte, 64)
	copy(head, "\x7fELF\x02\x01\x01") // 64 bits, little endian
	wire.LittleEndian.PutUint16(head[16:], 2)
	wire.LittleEndian.PutUint16(head[18:], 22) // S390
	wire.LittleEndian.PutUint32(head[20:], 1)
	wire.LittleEndian.PutUint16(head[52:], 64)
	return head
}

func TestWhyAFileDoesNotRunIsSaidInOneLineWithItsFacts(t *testing.T) {
	cfg := config(t)
	for name, body := range map[string]string{
		"elsewhere":      string(foreignELF()),
		"half":           "\x7fELF half",
		"no-interpreter": "#!/no/such/interpreter\n",
		"talks":          "#!/bin/sh\necho hello; sleep 60\n",
		"crashes":        "#!/bin/sh\nkill -SEGV $$\n",
		"leaves":         "#!/bin/sh\necho not today >&2; exit 3\n",
	} {
		if err := os.WriteFile(filepath.Join(cfg.Dir, name), []byte(body), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string][]string{
		"elsewhere":      {"cannot be executed", "ELF for S390", "mode -rwx------", "this machine is"},
		"half":           {"cannot be executed", "ELF that is damaged or was written in part", "9 bytes"},
		"no-interpreter": {"cannot be executed", "the interpreter or the loader that it names is not on this machine", "script"},
		"talks":          {"its handshake does not fit", "message: hello", "script"},
		"crashes":        {"was ended (signal: segmentation fault", "before the handshake"},
		"leaves":         {"ended with exit code 3", "it wrote: not today", "script, ", ", user "},
	}
	h := start(t, cfg)
	for name, texts := range want {
		var st pluginhost.PluginStatus
		eventually(t, "its error", func() bool { st = pluginOf(t, h, name); return st.LastFailure != nil })
		said := st.LastFailure.Error()
		for _, text := range texts {
			if !strings.Contains(said, text) {
				t.Errorf("%s: %q is not in: %s", name, text, said)
			}
		}
		if strings.Contains(said, "\n") || strings.Contains(said, "Additional notes") {
			t.Errorf("%s: it takes more than one line: %s", name, said)
		}
	}
}

func TestWhatAPluginThatDidNotComeUpLeftRunningHoldsNobodyUp(t *testing.T) {
	cfg := config(t)
	dir := t.TempDir() // as long as it is there, one process runs
	if err := os.WriteFile(filepath.Join(cfg.Dir, "escapes"), fmt.Appendf(nil, `#!/bin/sh
setsid /bin/sh -c 'while [ -d %[1]s ]; do sleep 0.1; done' &
sleep 1000 &
echo $! > %[1]s/in-group
echo hello
sleep 1000
`, dir), 0o700); err != nil {
		t.Fatal(err)
	}
	h := start(t, cfg)
	var st pluginhost.PluginStatus
	eventually(t, "its error", func() bool { st = pluginOf(t, h, "escapes"); return st.LastFailure != nil })
	if !strings.Contains(st.LastFailure.Error(), "its handshake does not fit") {
		t.Errorf("it says %v", st.LastFailure)
	}
	body, err := os.ReadFile(filepath.Join(dir, "in-group"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "what it started is ended with it", gone(pid))
}

func TestAPluginIsStartedAnewThoughItsTasksHaveItsOutputsOpen(t *testing.T) {
	h := start(t, config(t, "lender"))
	pid := pluginOf(t, h, "lender").PID
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another process serves", func() bool {
		st := pluginOf(t, h, "lender")
		return st.State == pluginhost.StateRunning && st.PID != pid && st.PID != 0
	})
}

func TestAFileThatSomebodyStillWritesToSaysSo(t *testing.T) {
	cfg := config(t)
	path := filepath.Join(cfg.Dir, "open")
	body, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, body, 0o700); err != nil {
		t.Fatal(err)
	}
	held, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	h := start(t, cfg)
	var st pluginhost.PluginStatus
	eventually(t, "its error", func() bool { st = pluginOf(t, h, "open"); return st.LastFailure != nil })
	if !strings.Contains(st.LastFailure.Error(), "somebody still writes to it") {
		t.Errorf("it says %v", st.LastFailure)
	}
}
