// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package agentlog

import (
	"fmt"
	"log/syslog"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/sdk/errdefs"
)

var facilities = map[string]syslog.Priority{
	"KERN": syslog.LOG_KERN, "USER": syslog.LOG_USER, "MAIL": syslog.LOG_MAIL, "DAEMON": syslog.LOG_DAEMON, "AUTH": syslog.LOG_AUTH,
	"SYSLOG": syslog.LOG_SYSLOG, "LPR": syslog.LOG_LPR, "NEWS": syslog.LOG_NEWS, "UUCP": syslog.LOG_UUCP, "CRON": syslog.LOG_CRON,
	"AUTHPRIV": syslog.LOG_AUTHPRIV, "FTP": syslog.LOG_FTP, "LOCAL0": syslog.LOG_LOCAL0, "LOCAL1": syslog.LOG_LOCAL1,
	"LOCAL2": syslog.LOG_LOCAL2, "LOCAL3": syslog.LOG_LOCAL3, "LOCAL4": syslog.LOG_LOCAL4, "LOCAL5": syslog.LOG_LOCAL5,
	"LOCAL6": syslog.LOG_LOCAL6, "LOCAL7": syslog.LOG_LOCAL7,
}

// unixSyslog is the syslog of the machine.
type unixSyslog struct{ *syslog.Writer }

func (w unixSyslog) send(p priority, line string) error {
	switch p {
	case debug:
		return w.Debug(line)
	case warning:
		return w.Warning(line)
	case failure:
		return w.Err(line)
	}
	return w.Info(line)
}

func (w unixSyslog) close() { _ = w.Close() } // an error does not matter: all lines have been sent

// openSyslog connects to the machine's syslog.
func openSyslog(o Options, level hclog.Level) (*syslogSink, error) {
	facility, ok := facilities[strings.ToUpper(o.Facility)]
	if !ok {
		return nil, errdefs.InvalidArgumentf("syslog_facility %q is not one of %s", o.Facility, strings.Join(slices.Sorted(maps.Keys(facilities)), ", "))
	}
	w, err := syslog.New(facility|syslog.LOG_INFO, "drover")
	if err != nil {
		return nil, fmt.Errorf("enable_syslog: this machine's syslog does not answer; start it, or remove enable_syslog: %w", err)
	}
	return newSyslogSink(unixSyslog{w}, o, level), nil
}
