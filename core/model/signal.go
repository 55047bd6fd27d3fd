// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"regexp"
	"strconv"
	"strings"
)

// unknownSignal is what is said of a signal that no system has.
const unknownSignal = "signal %q is unknown; name it as SIGTERM, TERM or 15"

// realtimeSignal is a signal relative to the first or the last one for real time.
var realtimeSignal = regexp.MustCompile(`^RTM(IN|AX)([+-][0-9]{1,2})?$`)

// signals are the names of the signals of all systems on which nodes run, without SIG.
var signals = func() map[string]bool {
	out := map[string]bool{}
	for name := range strings.FieldsSeq(`ABRT ALRM BUS CHLD CLD CONT EMT FPE HUP ILL INFO INT IO IOT KILL LOST PIPE POLL PROF PWR QUIT
SEGV STKFLT STOP SYS TERM THR TRAP TSTP TTIN TTOU UNUSED URG USR1 USR2 VTALRM WINCH XCPU XFSZ NULL`) {
		out[name] = true
	}
	return out
}()

// isSignal reports whether a text may name a signal. Which of them a node's system has is
// known there only.
func isSignal(text string) bool {
	if strings.Contains(text, "${") {
		return true // known when the task starts
	}
	if n, err := strconv.Atoi(text); err == nil {
		return n > 0 && n < 65
	}
	name := strings.TrimPrefix(strings.ToUpper(text), "SIG")
	return signals[name] || realtimeSignal.MatchString(name)
}
