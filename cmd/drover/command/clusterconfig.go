// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"
	"fmt"
)

// configTries is how often a change of a configuration is tried that concurrent changes
// prevent.
const configTries = 5

// clusterConfig is a configuration of the whole cluster, which operators change setting by
// setting.
type clusterConfig[C any] struct {
	name  string // "operator NAME get-config" shows it
	read  func(ctx context.Context) (*C, error)
	write func(ctx context.Context, c *C, cas *uint64) (updated bool, err error)
	index func(c *C) uint64
}

// change applies the settings whose flags were given. Without a value of -check-index it
// repeats them on top of a concurrent change, so it never changes other settings.
func (k clusterConfig[C]) change(ctx context.Context, fs *flag.FlagSet, settings map[string]func(*C), check string) error {
	var given []func(*C)
	fs.Visit(func(f *flag.Flag) {
		if settings[f.Name] != nil {
			given = append(given, settings[f.Name])
		}
	})
	if len(given) == 0 {
		return fmt.Errorf("no settings to change were given; see: drover operator %s set-config -h", k.name)
	}
	checked, index, err := checkIndex(check)
	if err != nil {
		return err
	}
	for range configTries {
		c, err := k.read(ctx)
		if err != nil {
			return err
		}
		for _, set := range given {
			set(c)
		}
		if !checked {
			index = k.index(c)
		}
		if updated, err := k.write(ctx, c, &index); updated || err != nil {
			return err
		}
		if checked {
			break
		}
	}
	return fmt.Errorf("the configuration has changed since index %d; read it again with: drover operator %s get-config -json", index, k.name)
}
