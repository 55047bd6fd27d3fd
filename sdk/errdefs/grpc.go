// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package errdefs

import (
	"errors"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/drover-project/drover/sdk/internal/oneline"
)

// infoDomain marks the ErrorInfo detail that carries what a gRPC code cannot express: the
// class is its reason, and its metadata has the rest. The retry hint is a RetryInfo detail.
const infoDomain = "drover"

// Names in the metadata of ErrorInfo.
const (
	metaRetryable = "retryable" // "true" or "false"
	metaReason    = "reason"    // the reason code
	metaDetail    = "detail."   // followed by the name of a detail
)

var toCode = map[Class]codes.Code{
	NotFound:           codes.NotFound,
	InvalidArgument:    codes.InvalidArgument,
	AlreadyExists:      codes.AlreadyExists,
	FailedPrecondition: codes.FailedPrecondition,
	Unavailable:        codes.Unavailable,
	DeadlineExceeded:   codes.DeadlineExceeded,
	PermissionDenied:   codes.PermissionDenied,
	ResourceExhausted:  codes.ResourceExhausted,
	Conflict:           codes.Aborted,
	Unimplemented:      codes.Unimplemented,
	Aborted:            codes.Aborted,
	Canceled:           codes.Canceled,
	Internal:           codes.Internal,
}

var fromCode = map[codes.Code]Class{
	codes.NotFound:           NotFound,
	codes.InvalidArgument:    InvalidArgument,
	codes.OutOfRange:         InvalidArgument,
	codes.AlreadyExists:      AlreadyExists,
	codes.FailedPrecondition: FailedPrecondition,
	codes.Unavailable:        Unavailable,
	codes.DeadlineExceeded:   DeadlineExceeded,
	codes.PermissionDenied:   PermissionDenied,
	codes.Unauthenticated:    PermissionDenied,
	codes.ResourceExhausted:  ResourceExhausted,
	codes.Unimplemented:      Unimplemented,
	codes.Aborted:            Aborted,
	codes.Canceled:           Canceled,
	codes.Internal:           Internal,
	codes.Unknown:            Internal,
	codes.DataLoss:           Internal,
}

// MaxText is the maximum length of the text of an error in a gRPC status, in bytes.
const MaxText = 32 << 10

// ToGRPC converts err into a gRPC status error with the same text, class, retryable mark,
// reason code, details and retry hint. It returns status errors and nil unchanged. Bytes
// that are no UTF-8 are replaced: gRPC could not send them, and the class would be lost.
func ToGRPC(err error) error {
	if err == nil {
		return nil
	}
	var own *classed
	if !errors.As(err, &own) {
		if _, ok := status.FromError(err); ok {
			return err
		}
	}
	class := ClassOf(err)
	st := status.New(toCode[class], sendable(err.Error()))
	info := &errdetails.ErrorInfo{Reason: string(class), Domain: infoDomain, Metadata: map[string]string{}}
	// Transmit only an explicit mark: without one the class decides on both sides.
	if retryable, marked := RetryableMark(err); marked {
		info.Metadata[metaRetryable] = strconv.FormatBool(retryable)
	}
	if reason := ReasonOf(err); reason != "" {
		info.Metadata[metaReason] = reason
	}
	for name, value := range DetailsOf(err) {
		info.Metadata[metaDetail+name] = value
	}
	parts := []protoadapt.MessageV1{info}
	if d := RetryAfter(err); d > 0 {
		parts = append(parts, &errdetails.RetryInfo{RetryDelay: durationpb.New(d)})
	}
	withParts, detailErr := st.WithDetails(parts...)
	if detailErr != nil {
		return st.Err()
	}
	return withParts.Err()
}

// sendable returns the text of an error as valid UTF-8 of at most MaxText bytes.
func sendable(text string) string {
	if len(text) > MaxText {
		text = text[:MaxText-len(cutMark)] + cutMark
	}
	return strings.ToValidUTF8(text, "?")
}

// cutMark is the end of a text that was cut.
const cutMark = "..."

// FromGRPC converts a gRPC status error back into an error with all that ToGRPC keeps. It
// cuts what exceeds the limits of this package, since the other side may be defective or
// hostile. It returns nil and errors that are not a status unchanged.
func FromGRPC(err error) error {
	if err == nil {
		return nil
	}
	st, ok := status.FromError(err)
	if !ok || st.Code() == codes.OK {
		return err
	}
	class, known := fromCode[st.Code()]
	if !known {
		class = Internal
	}
	out := &classed{class: class, err: errors.New(sendable(st.Message()))}
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == infoDomain {
				out.read(d)
			}
		case *errdetails.RetryInfo:
			if d.GetRetryDelay().IsValid() {
				out.retryAfter = soundHint(d.GetRetryDelay().AsDuration())
			}
		}
	}
	return out
}

func (e *classed) read(info *errdetails.ErrorInfo) {
	if c := Class(info.GetReason()); toCode[c] != codes.OK {
		e.class = c
	}
	meta := info.GetMetadata()
	if b, err := strconv.ParseBool(meta[metaRetryable]); err == nil {
		e.retryable = &b
	}
	e.reason = code(meta[metaReason])
	// DetailsOf limits the number, so that both sides choose the same ones.
	for key, value := range meta {
		if name, is := strings.CutPrefix(key, metaDetail); is && name != "" {
			if e.details == nil {
				e.details = map[string]string{}
			}
			e.details[code(name)] = oneline.Text(value, MaxDetailValue)
		}
	}
}
