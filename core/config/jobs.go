// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"math"

	"github.com/dustin/go-humanize"

	"github.com/drover-project/drover/core/model"
)

// jobProblems lists the invalid limits of jobs.
func (s *Server) jobProblems() []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	highest := model.JobMaxPriority
	if p := s.JobMaxPriority; p != 0 {
		if highest = p; p < model.JobMaxPriority || p > math.MaxInt16-1 {
			add("server.job_max_priority cannot be %d. Must be between %d and %d", p, model.JobMaxPriority, math.MaxInt16-1)
		}
	}
	if p := s.JobDefaultPriority; p != 0 && (p < model.JobDefaultPriority || p > highest) {
		add("server.job_default_priority cannot be %d. Must be between %d and %d", p, model.JobDefaultPriority, highest)
	}
	if s.JobMaxCount < 0 {
		add("server.job_max_count %d is negative", s.JobMaxCount)
	}
	if _, err := s.JobSource(); err != nil {
		add("server.job_max_source_size: %q is not a size such as \"1M\"", s.JobMaxSourceSize)
	}
	return append(out, s.historyProblems()...)
}

// historyProblems lists the invalid bounds of the history, except its age, which
// durationProblems checks.
func (s *Server) historyProblems() (out []string) {
	if _, err := s.HistorySize(0); err != nil {
		out = append(out, fmt.Sprintf("server.history_max_size: %q is not a size such as \"32MiB\", up to %s", s.HistoryMaxSize, humanize.IBytes(maxHistory)))
	}
	return out
}

// maxHistory is the largest history: a request for all of it must fit in memory.
const maxHistory = 512 << 20

// HistorySize returns the maximum size of the history in bytes, or otherwise if it is unset.
func (s *Server) HistorySize(otherwise int64) (int64, error) {
	if s.HistoryMaxSize == "" {
		return otherwise, nil
	}
	n, err := humanize.ParseBytes(s.HistoryMaxSize)
	if err == nil && n > maxHistory {
		err = fmt.Errorf("%d bytes are more than a history may have", n)
	}
	return int64(n), err
}

// JobSource returns the maximum size of a stored job file in bytes, 0 for the default.
func (s *Server) JobSource() (int64, error) {
	if s.JobMaxSourceSize == "" {
		return 0, nil
	}
	n, err := humanize.ParseBytes(s.JobMaxSourceSize)
	if err == nil && n > 1<<30 {
		err = fmt.Errorf("%d bytes are more than a job file may have", n)
	}
	return int64(n), err
}
