// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package errdefs

import (
	"errors"
	"strconv"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// infoDomain marks the ErrorInfo detail that carries what a gRPC code cannot express:
// the class Conflict and the retryable mark.
const infoDomain = "drover"

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

// ToGRPC converts err into a gRPC status error with the same text, class and retryable
// mark. It returns status errors and nil unchanged.
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
	st := status.New(toCode[class], err.Error())
	info := &errdetails.ErrorInfo{Reason: string(class), Domain: infoDomain}
	// Transmit only an explicit mark: without one the class decides on both sides.
	if retryable, marked := RetryableMark(err); marked {
		info.Metadata = map[string]string{"retryable": strconv.FormatBool(retryable)}
	}
	withInfo, detailErr := st.WithDetails(info)
	if detailErr != nil {
		return st.Err()
	}
	return withInfo.Err()
}

// FromGRPC converts a gRPC status error back into an error with its class, text and
// retryable mark. It returns nil and errors that are not a status unchanged.
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
	out := &classed{class: class, err: errors.New(st.Message())}
	for _, d := range st.Details() {
		info, isInfo := d.(*errdetails.ErrorInfo)
		if !isInfo || info.GetDomain() != infoDomain {
			continue
		}
		if c := Class(info.GetReason()); toCode[c] != codes.OK {
			out.class = c
		}
		if b, parseErr := strconv.ParseBool(info.GetMetadata()["retryable"]); parseErr == nil {
			out.retryable = &b
		}
	}
	return out
}
