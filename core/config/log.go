// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// rotateEvery is the age at which a log file is put away unless the configuration sets
// another one.
const rotateEvery = 24 * time.Hour

// logLevels are the values of log_level, without regard to case.
var logLevels = []string{"TRACE", "DEBUG", "INFO", "WARN", "ERROR"}

// RotateEvery returns the age at which the log file is put away.
func (c *Config) RotateEvery() time.Duration { return Duration(c.LogRotateDuration, rotateEvery) }

func (c *Config) logProblems() []string {
	var out []string
	if level := strings.ToUpper(strings.TrimSpace(c.LogLevel)); level != "" && level != "OFF" && !slices.Contains(logLevels, level) {
		out = append(out, fmt.Sprintf("log_level %q is not one of %s", c.LogLevel, strings.Join(logLevels, ", ")))
	}
	if d, err := ParseDuration(c.LogRotateDuration); err != nil || d < 0 {
		out = append(out, fmt.Sprintf("log_rotate_duration: %q is not a duration such as \"24h\"", c.LogRotateDuration))
	}
	if c.LogRotateBytes < 0 || c.LogRotateMaxFiles < 0 {
		out = append(out, fmt.Sprintf("log_rotate_bytes %d and log_rotate_max_files %d must not be negative", c.LogRotateBytes, c.LogRotateMaxFiles))
	}
	if c.LogFile == "" && (c.LogRotateBytes != 0 || c.LogRotateDuration != "" || c.LogRotateMaxFiles != 0) {
		c.warnOnce("log_rotate_bytes, log_rotate_duration and log_rotate_max_files do nothing without log_file")
	}
	if c.SyslogFacility != "" && !c.EnableSyslog {
		c.warnOnce("syslog_facility does nothing without enable_syslog")
	}
	return out
}
