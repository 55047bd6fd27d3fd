// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package storage_test

const canMount = false

func mount(string) error { return nil }

func unmount(string) {}
