// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"strings"

	driverv1 "github.com/drover-project/drover/sdk/internal/pb/driver/v1"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/internal/oneline"
	"github.com/drover-project/drover/sdk/schema"
)

// FeatureValidateTask: the driver is a Validator.
const FeatureValidateTask Feature = "validate_task"

// Validator is implemented by drivers with rules that a schema cannot express, such as two
// attributes that exclude each other. Before it starts a task, the agent asks for
// everything that is wrong with its config, and a config with an error is not started. Use
// the same function in StartTask, with Refusal. Servers ask, too, when a job is validated,
// planned or registered. Attributes that only a node can fill in are missing in the config
// then, and findings about them, or about a block that contains them, are dropped.
type Validator interface {
	// ValidateTask returns what is wrong with the config of a task; nothing if StartTask
	// may succeed. It starts nothing, asks no daemon, reads no file of the task, which may
	// not exist yet, and answers within a second. An error of class InvalidArgument, such as
	// one of schema.Unmarshal, is a finding of SeverityError. Any other error means that the
	// config could not be checked; the task is then started all the same.
	ValidateTask(ctx context.Context, task *TaskDraft) ([]Diagnostic, error)
}

// TaskDraft is the part of a task that ValidateTask gets.
type TaskDraft struct {
	// DriverConfig is the same as in TaskConfig.
	DriverConfig []byte
}

// Diagnostic is one finding about a config. Texts have one line.
type Diagnostic struct {
	// Path is the attribute as in the problems of sdk/schema: config.mount[1].source, or
	// config for the whole block.
	Path     string
	Severity Severity
	Summary  string // the error in a few words
	Detail   string // the cause, where Summary does not name it; may be empty
	Cure     string // the remedy; may be empty
}

// Severity says what follows from a diagnostic. A value that the host does not know counts
// as SeverityWarning.
type Severity string

// The severities.
const (
	SeverityError   Severity = "error"   // the task cannot start
	SeverityWarning Severity = "warning" // the user is told
)

// String returns the diagnostic in one line.
func (d Diagnostic) String() string {
	out := d.Path + ": " + d.Summary
	if d.Detail != "" {
		out += ": " + d.Detail
	}
	if d.Cure != "" {
		out += "; " + d.Cure
	}
	return out
}

// Refusal returns the error with which a task is not started: of class InvalidArgument and
// reason "invalid_config", with all diagnostics of SeverityError. It is nil if there are
// none.
func Refusal(found []Diagnostic) error {
	var lines []string
	for _, d := range found {
		if d.Severity == SeverityError {
			lines = append(lines, d.String())
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return errdefs.WithReason(errdefs.InvalidArgumentf("%s", strings.Join(lines, "\n")), "invalid_config")
}

func (s *server) ValidateTask(ctx context.Context, req *driverv1.ValidateTaskRequest) (resp *driverv1.ValidateTaskResponse, err error) {
	d, err := s.drivers.Get(req.GetDriver())
	if err != nil {
		return nil, err
	}
	v, ok := d.(Validator)
	if !ok {
		return nil, errdefs.ToGRPC(errdefs.Unimplementedf("driver %q does not validate configs", req.GetDriver()))
	}
	// A rule works on what users wrote. A defect in it must not end the process.
	defer func() {
		if p := recover(); p != nil {
			resp, err = nil, errdefs.ToGRPC(errdefs.Internalf("ValidateTask of driver %q panicked, which is a defect of the plugin: %v", req.GetDriver(), p))
		}
	}()
	found, err := v.ValidateTask(ctx, &TaskDraft{DriverConfig: req.GetDriverConfig()})
	if errdefs.IsInvalidArgument(err) {
		found, err = append(found, refused(err)...), nil
	}
	if err != nil {
		return nil, errdefs.ToGRPC(err)
	}
	out := &driverv1.ValidateTaskResponse{}
	for _, d := range sound(found) {
		out.Diagnostics = append(out.Diagnostics, &driverv1.Diagnostic{
			Path: d.Path, Severity: string(d.Severity), Summary: d.Summary, Detail: d.Detail, Cure: d.Cure,
		})
	}
	return out, nil
}

// ValidateTask implements Validator.
func (c *client) ValidateTask(ctx context.Context, task *TaskDraft) ([]Diagnostic, error) {
	resp, err := c.rpc.ValidateTask(ctx, &driverv1.ValidateTaskRequest{Driver: c.info.Name, DriverConfig: task.DriverConfig})
	if err = errdefs.FromGRPC(err); errdefs.IsInvalidArgument(err) {
		return sound(refused(err)), nil // from a plugin in another language, or an older one
	}
	if err != nil {
		return nil, err
	}
	found := make([]Diagnostic, 0, min(len(resp.GetDiagnostics()), maxDiagnostics))
	for _, d := range resp.GetDiagnostics()[:cap(found)] {
		found = append(found, Diagnostic{
			Path: d.GetPath(), Severity: Severity(d.GetSeverity()), Summary: d.GetSummary(), Detail: d.GetDetail(), Cure: d.GetCure(),
		})
	}
	return sound(found), nil
}

// refused returns the findings for an error of class InvalidArgument.
func refused(err error) []Diagnostic {
	var found []Diagnostic
	for _, p := range schema.ProblemsOf(err) {
		found = append(found, Diagnostic{Path: p.Path, Severity: SeverityError, Summary: p.Text})
	}
	if len(found) == 0 {
		found = append(found, Diagnostic{Path: "config", Severity: SeverityError, Summary: err.Error()})
	}
	return found
}

// Limits of an answer.
const (
	maxDiagnostics    = 100
	maxDiagnosticText = 1024 // bytes
)

// sound cuts diagnostics to the limits. Both sides of the connection call it, because
// neither trusts the other.
func sound(in []Diagnostic) []Diagnostic {
	var out []Diagnostic
	for _, d := range in[:min(len(in), maxDiagnostics)] {
		for _, text := range []*string{&d.Path, &d.Summary, &d.Detail, &d.Cure} {
			*text = oneline.Text(*text, maxDiagnosticText)
		}
		if d.Severity != SeverityError {
			d.Severity = SeverityWarning
		}
		if !InConfig(d.Path) {
			d.Path = "config"
		}
		out = append(out, d)
	}
	return out
}

// InConfig reports whether path has the form of a path within a config block.
func InConfig(path string) bool {
	rest, ok := strings.CutPrefix(path, "config")
	return ok && (rest == "" || len(rest) > 1 && (rest[0] == '.' || rest[0] == '['))
}
