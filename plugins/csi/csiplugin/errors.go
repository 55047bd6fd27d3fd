// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csiplugin

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/drover-project/drover/sdk/errdefs"
	volume "github.com/drover-project/drover/sdk/volume/v1"
)

// maxWords is the largest number of bytes of a driver's text that is passed on.
const maxWords = 1024

// classes of the codes of CSI. Aborted means here that another call for the volume is in
// progress.
var classes = map[codes.Code]errdefs.Class{
	codes.InvalidArgument: errdefs.InvalidArgument, codes.OutOfRange: errdefs.InvalidArgument, codes.NotFound: errdefs.NotFound,
	codes.AlreadyExists: errdefs.AlreadyExists, codes.FailedPrecondition: errdefs.FailedPrecondition, codes.Aborted: errdefs.Aborted,
	codes.Unavailable: errdefs.Unavailable, codes.DeadlineExceeded: errdefs.DeadlineExceeded, codes.Canceled: errdefs.Unavailable,
	codes.PermissionDenied: errdefs.PermissionDenied, codes.Unauthenticated: errdefs.PermissionDenied,
	codes.ResourceExhausted: errdefs.ResourceExhausted, codes.Unimplemented: errdefs.Unimplemented,
}

// reasons of codes that mean the same in all calls; a call may know better.
var reasons = map[codes.Code]string{codes.OutOfRange: volume.ReasonSize, codes.Aborted: volume.ReasonPending}

// explain is explain of a call, also without the secrets of calls before it: a driver may say
// what it was told when a volume was staged where it cannot unstage it.
func (p *Plugin) explain(c call, err error) error {
	if err != nil {
		c.secrets = p.sent.with(c.secrets)
	}
	return c.explain(err)
}

// explain turns the outcome of a call into an error of the contract, without secrets.
func (c *call) explain(err error) error {
	if err == nil {
		return nil
	}
	var own *problem
	if errors.As(err, &own) {
		return errdefs.New(errdefs.ClassOf(own.err), fmt.Errorf("%s: %w", c.what, own.err))
	}
	st, ok := status.FromError(err)
	if !ok {
		return errdefs.New(errdefs.ClassOf(err), fmt.Errorf("%s: %w", c.what, err))
	}
	class, known := classes[st.Code()]
	if !known {
		class = errdefs.Internal
	}
	text := words(st.Message(), c.secrets)
	if text == "" {
		text = "the driver says nothing else"
	}
	out := errdefs.New(class, fmt.Errorf("%s: %s (%s)", c.what, text, st.Code()))
	reason := reasons[st.Code()]
	if st.Code() == codes.FailedPrecondition {
		reason = c.precondition
	}
	if reason != "" {
		out = errdefs.WithReason(out, reason)
	}
	return out
}

// problem is an error of ours that is final, in contrast to what a driver answers.
type problem struct{ err error }

func (p *problem) Error() string { return p.err.Error() }
func (p *problem) Unwrap() error { return p.err }

// because makes an error of the contract final.
func because(err error) error {
	if err == nil {
		return nil
	}
	return &problem{err}
}

// defective says that a driver has answered in a way that it must not. The text must have
// nothing of the answer that could be a secret.
func defective(format string, args ...any) error {
	return because(errdefs.WithReason(errdefs.Internalf("the driver is defective: "+format, args...), volume.ReasonDefective))
}

// reasoned adds the reason that a code has in one call.
func reasoned(err error, code codes.Code, reason string) error {
	if classes[code] == errdefs.ClassOf(err) && errdefs.ReasonOf(err) == "" {
		return errdefs.WithReason(err, reason)
	}
	return err
}

// words returns the text of a driver on one line, without the secrets of the call, however
// a driver may have written them.
func words(text string, secrets volume.Secrets) string {
	for _, value := range secrets {
		for _, form := range forms(value) {
			if !strings.Contains(text, form) {
				continue
			}
			if len(form) < 4 { // what is left would still tell where it was
				return "the driver's words are hidden, since they may contain a secret"
			}
			text = strings.ReplaceAll(text, form, "(secret)")
		}
	}
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if len(text) > maxWords {
		text = strings.ToValidUTF8(text[:maxWords], "") + "..."
	}
	return text
}

// forms are the ways in which drivers write a secret.
func forms(value string) []string {
	if strings.TrimSpace(value) == "" {
		return nil
	}
	quoted := strconv.Quote(value)
	return []string{
		value, strings.TrimSpace(value), quoted[1 : len(quoted)-1], url.QueryEscape(value), url.PathEscape(value),
		base64.StdEncoding.EncodeToString([]byte(value)), base64.URLEncoding.EncodeToString([]byte(value)), base64.RawStdEncoding.EncodeToString([]byte(value)),
	}
}
