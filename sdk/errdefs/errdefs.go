// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package errdefs holds the error classes that all of Drover shares, and their mapping
// to gRPC status and back. A class says what the caller can do about an error; the
// text says what happened. A reason code, details and a retry hint may explain it further.
// It owns no errors of a specific area and no HTTP codes (core/api does). Every package may
// import it.
//
// Create an error of a class with the class's constructor, which wraps like
// fmt.Errorf:
//
//	return errdefs.NotFoundf("task %q is unknown to this driver; recover it first: %w", id, err)
//
// Test for a class with its Is function:
//
//	if errdefs.IsNotFound(err) { ... }
//
// Explain an error where it helps users or programs; all of it is kept by %w and over gRPC:
//
//	err = errdefs.WithReason(err, "image_not_found")
//	err = errdefs.WithDetail(err, "image", name)
//	err = errdefs.WithRetryAfter(err, time.Minute)
//
// If a classed error wraps another one, the class of the outer error counts.
// errors.Is(err, errdefs.NotFound) also matches the inner ones.
package errdefs

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Class says what an error means to a caller. Each class is itself an error, so
// errors.Is(err, errdefs.NotFound) works on every error of that class.
type Class string

// The classes. An error has the class of the outermost classed error in its chain.
const (
	NotFound           Class = "not found"
	InvalidArgument    Class = "invalid argument"
	AlreadyExists      Class = "already exists"
	FailedPrecondition Class = "failed precondition"
	Unavailable        Class = "unavailable"
	DeadlineExceeded   Class = "deadline exceeded"
	PermissionDenied   Class = "permission denied"
	ResourceExhausted  Class = "resource exhausted"
	Conflict           Class = "conflict"
	Unimplemented      Class = "unimplemented"
	Aborted            Class = "aborted"
	Canceled           Class = "canceled"
	Internal           Class = "internal"
)

// Error returns the name of the class.
func (c Class) Error() string { return string(c) }

// classed adds a class to an error, and optionally a retryable mark, a reason code, details
// and a retry hint.
type classed struct {
	class      Class
	err        error
	retryable  *bool
	reason     string            // in the form of code
	details    map[string]string // sound names and values
	retryAfter time.Duration
}

func (e *classed) Error() string { return e.err.Error() }

func (e *classed) Unwrap() error { return e.err }

// Is makes the class of the error visible to errors.Is.
func (e *classed) Is(target error) bool {
	c, ok := target.(Class)
	return ok && c == e.class
}

// New gives err a class without changing its text. A nil err stays nil.
func New(class Class, err error) error {
	if err == nil {
		return nil
	}
	return &classed{class: class, err: err}
}

func newf(class Class, format string, args ...any) error {
	return &classed{class: class, err: fmt.Errorf(format, args...)}
}

// NotFoundf returns an error of class NotFound: the named thing does not exist.
func NotFoundf(format string, args ...any) error { return newf(NotFound, format, args...) }

// InvalidArgumentf returns an error of class InvalidArgument: the request can never succeed as it is.
func InvalidArgumentf(format string, args ...any) error {
	return newf(InvalidArgument, format, args...)
}

// AlreadyExistsf returns an error of class AlreadyExists: the object to be created
// exists.
func AlreadyExistsf(format string, args ...any) error { return newf(AlreadyExists, format, args...) }

// FailedPreconditionf returns an error of class FailedPrecondition: the state must change before a retry can succeed.
func FailedPreconditionf(format string, args ...any) error {
	return newf(FailedPrecondition, format, args...)
}

// Unavailablef returns an error of class Unavailable: the callee cannot be reached or
// cannot answer now; a retry may succeed.
func Unavailablef(format string, args ...any) error { return newf(Unavailable, format, args...) }

// DeadlineExceededf returns an error of class DeadlineExceeded: there was no answer in
// time.
func DeadlineExceededf(format string, args ...any) error {
	return newf(DeadlineExceeded, format, args...)
}

// PermissionDeniedf returns an error of class PermissionDenied: the caller is not
// allowed to do this.
func PermissionDeniedf(format string, args ...any) error {
	return newf(PermissionDenied, format, args...)
}

// ResourceExhaustedf returns an error of class ResourceExhausted: a limit was reached.
func ResourceExhaustedf(format string, args ...any) error {
	return newf(ResourceExhausted, format, args...)
}

// Conflictf returns an error of class Conflict: a concurrent write came first; the
// caller must read again before it retries.
func Conflictf(format string, args ...any) error { return newf(Conflict, format, args...) }

// Unimplementedf returns an error of class Unimplemented: the callee does not support
// this.
func Unimplementedf(format string, args ...any) error { return newf(Unimplemented, format, args...) }

// Abortedf returns an error of class Aborted: the operation was given up before it was
// complete.
func Abortedf(format string, args ...any) error { return newf(Aborted, format, args...) }

// Canceledf returns an error of class Canceled: the caller gave up.
func Canceledf(format string, args ...any) error { return newf(Canceled, format, args...) }

// Internalf returns an error of class Internal: a defect in Drover or in a plugin.
func Internalf(format string, args ...any) error { return newf(Internal, format, args...) }

// ClassOf returns the class of the outermost classed error in err's chain, the
// matching class for the errors of package context, and Internal for all other errors.
// It returns "" for nil.
func ClassOf(err error) Class {
	if err == nil {
		return ""
	}
	var e *classed
	if errors.As(err, &e) {
		return e.class
	}
	var c Class
	if errors.As(err, &c) {
		return c
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return Canceled
	}
	return Internal
}

// IsNotFound reports whether err is of class NotFound.
func IsNotFound(err error) bool { return ClassOf(err) == NotFound }

// IsInvalidArgument reports whether err is of class InvalidArgument.
func IsInvalidArgument(err error) bool { return ClassOf(err) == InvalidArgument }

// IsAlreadyExists reports whether err is of class AlreadyExists.
func IsAlreadyExists(err error) bool { return ClassOf(err) == AlreadyExists }

// IsFailedPrecondition reports whether err is of class FailedPrecondition.
func IsFailedPrecondition(err error) bool { return ClassOf(err) == FailedPrecondition }

// IsUnavailable reports whether err is of class Unavailable.
func IsUnavailable(err error) bool { return ClassOf(err) == Unavailable }

// IsDeadlineExceeded reports whether err is of class DeadlineExceeded or wraps context.DeadlineExceeded.
func IsDeadlineExceeded(err error) bool { return ClassOf(err) == DeadlineExceeded }

// IsPermissionDenied reports whether err is of class PermissionDenied.
func IsPermissionDenied(err error) bool { return ClassOf(err) == PermissionDenied }

// IsResourceExhausted reports whether err is of class ResourceExhausted.
func IsResourceExhausted(err error) bool { return ClassOf(err) == ResourceExhausted }

// IsConflict reports whether err is of class Conflict.
func IsConflict(err error) bool { return ClassOf(err) == Conflict }

// IsUnimplemented reports whether err is of class Unimplemented.
func IsUnimplemented(err error) bool { return ClassOf(err) == Unimplemented }

// IsAborted reports whether err is of class Aborted.
func IsAborted(err error) bool { return ClassOf(err) == Aborted }

// IsCanceled reports whether err is of class Canceled or wraps context.Canceled.
func IsCanceled(err error) bool { return ClassOf(err) == Canceled }

// IsInternal reports whether err is of class Internal, as all errors without a class
// are.
func IsInternal(err error) bool { return ClassOf(err) == Internal }

// WithRetryable marks err as retryable or not, and keeps its class and text. Use it
// where the default of the class is wrong.
func WithRetryable(err error, retryable bool) error {
	if err == nil {
		return nil
	}
	return &classed{class: ClassOf(err), err: err, retryable: &retryable}
}

// RetryableMark returns the outermost mark set by WithRetryable. marked is false if
// there is none.
func RetryableMark(err error) (retryable, marked bool) {
	if e := outermost(err, func(e *classed) bool { return e.retryable != nil }); e != nil {
		return *e.retryable, true
	}
	return false, false
}

// IsRetryable reports whether the same request may succeed later without a change: the
// outermost explicit mark decides, otherwise the class.
func IsRetryable(err error) bool {
	if retryable, marked := RetryableMark(err); marked {
		return retryable
	}
	switch ClassOf(err) {
	case Unavailable, DeadlineExceeded, ResourceExhausted, Conflict, Aborted:
		return true
	}
	return false
}
