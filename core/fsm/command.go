// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"fmt"

	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Command is one entry of the log. Commands are the pointer types of this package;
// Encode encodes one. The result of a command is nil or a classed error. A command
// that fails has changed nothing, except for a Batch, whose commands are independent.
type Command interface {
	apply(tx *state.Tx) error
	kind() byte
}

// answering is a command with a result.
type answering interface{ answer() any }

// The first byte of an entry is the version of the encoding, the second the kind of
// the command. Their values must never be reused.
const formatVersion = 1

const (
	kindBatch                  = 1
	kindUpsertJob              = 2
	kindDeregisterJob          = 3
	kindSetJobStability        = 4
	kindSetJobVersionTag       = 5
	kindUpsertEvals            = 6
	kindDeleteEvals            = 7
	kindUpdateDesired          = 10
	kindRegisterNode           = 11
	kindDeregisterNodes        = 12
	kindUpdateNodeStatus       = 13
	kindUpdateNodeDrain        = 14
	kindUpdateNodeEligibility  = 15
	kindUpsertNodeEvents       = 16
	kindUpdateDeploymentStatus = 17
	kindPromoteDeployment      = 18
	kindSetDeploymentHealth    = 19
	kindDeleteDeployments      = 20
	kindUpsertNamespaces       = 21
	kindDeleteNamespaces       = 22
	kindUpsertNodePools        = 23
	kindDeleteNodePools        = 24
	kindSetSchedulerConfig     = 25
	kindDispatchJob            = 26
	kindLaunchPeriodic         = 27
	kindRecountJobs            = 28
	kindApplyPlan              = 29 // 8 was a plan of whole allocs
	kindScaleJob               = 30
	kindUpdateAllocsFromClient = 31 // 9 held whole task states
	kindPutVariable            = 40
	kindDeleteVariable         = 41
	kindUpsertRootKey          = 42
	kindDeleteRootKey          = 43
	kindActivateRootKey        = 44
	kindRegisterPlugin         = 60
	kindDeletePlugin           = 61
	kindSteerPluginRollout     = 62
	kindStepPluginRollout      = 63
	kindAddDriverSchemas       = 64
	kindMarkDriverSchemas      = 65
	kindDeleteDriverSchemas    = 66
	kindBeginTerm              = 70
)

// newCommand returns an empty command of the kind, nil if there is none.
func newCommand(kind byte) Command {
	switch kind {
	case kindBatch:
		return &Batch{}
	case kindUpsertJob:
		return &UpsertJob{}
	case kindDeregisterJob:
		return &DeregisterJob{}
	case kindScaleJob:
		return &ScaleJob{}
	case kindSetJobStability:
		return &SetJobStability{}
	case kindSetJobVersionTag:
		return &SetJobVersionTag{}
	case kindUpsertEvals:
		return &UpsertEvals{}
	case kindDeleteEvals:
		return &DeleteEvals{}
	case kindApplyPlan:
		return &ApplyPlan{}
	case kindUpdateAllocsFromClient:
		return &UpdateAllocsFromClient{}
	case kindUpdateDesired:
		return &UpdateDesiredTransitions{}
	case kindRegisterNode:
		return &RegisterNode{}
	case kindDeregisterNodes:
		return &DeregisterNodes{}
	case kindUpdateNodeStatus:
		return &UpdateNodeStatus{}
	case kindUpdateNodeDrain:
		return &UpdateNodeDrain{}
	case kindUpdateNodeEligibility:
		return &UpdateNodeEligibility{}
	case kindUpsertNodeEvents:
		return &UpsertNodeEvents{}
	case kindUpdateDeploymentStatus:
		return &UpdateDeploymentStatus{}
	case kindPromoteDeployment:
		return &PromoteDeployment{}
	case kindSetDeploymentHealth:
		return &SetDeploymentAllocHealth{}
	case kindDeleteDeployments:
		return &DeleteDeployments{}
	case kindUpsertNamespaces:
		return &UpsertNamespaces{}
	case kindDeleteNamespaces:
		return &DeleteNamespaces{}
	case kindUpsertNodePools:
		return &UpsertNodePools{}
	case kindDeleteNodePools:
		return &DeleteNodePools{}
	case kindDispatchJob:
		return &DispatchJob{}
	case kindRecountJobs:
		return &RecountJobs{}
	case kindLaunchPeriodic:
		return &LaunchPeriodic{}
	case kindSetSchedulerConfig:
		return &SetSchedulerConfig{}
	case kindPutVariable:
		return &PutVariable{}
	case kindDeleteVariable:
		return &DeleteVariable{}
	case kindUpsertRootKey:
		return &UpsertRootKey{}
	case kindDeleteRootKey:
		return &DeleteRootKey{}
	case kindActivateRootKey:
		return &ActivateRootKey{}
	case kindRegisterPlugin:
		return &RegisterPlugin{}
	case kindDeletePlugin:
		return &DeletePlugin{}
	case kindSteerPluginRollout:
		return &SteerPluginRollout{}
	case kindStepPluginRollout:
		return &StepPluginRollout{}
	case kindAddDriverSchemas:
		return &AddDriverSchemas{}
	case kindMarkDriverSchemas:
		return &MarkDriverSchemas{}
	case kindDeleteDriverSchemas:
		return &DeleteDriverSchemas{}
	case kindBeginTerm:
		return &BeginTerm{}
	}
	return nil
}

// packed is a command whose stored form differs from the one that its proposer fills
// in.
type packed interface {
	pack() (any, error)
	packedForm() any
	unpack(form any) error
}

var entryCodec = NewCodec()

// Encode returns the log entry of a command. InvalidArgument: the command is
// incomplete.
func Encode(c Command) (_ []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errdefs.InvalidArgumentf("encoding %T: %v", c, r)
		}
	}()
	var body any = c
	if p, ok := c.(packed); ok {
		form, err := p.pack()
		if err != nil {
			return nil, err
		}
		body = form
	}
	data, err := entryCodec.Append([]byte{formatVersion, c.kind()}, body)
	if err != nil {
		return nil, fmt.Errorf("encoding a log entry: %w", err)
	}
	return data, nil
}

// Decode decodes a log entry. It returns an error of class InvalidArgument for an
// entry that it cannot decode, the same on every server of this version.
func Decode(data []byte) (_ Command, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errdefs.InvalidArgumentf("a log entry is damaged: %v", r)
		}
	}()
	if len(data) < 2 {
		return nil, errdefs.InvalidArgumentf("a log entry of %d bytes is not a command", len(data))
	}
	if data[0] != formatVersion {
		return nil, errdefs.InvalidArgumentf("a log entry has format %d, this server reads %d: run the same version on all servers", data[0], formatVersion)
	}
	c := newCommand(data[1])
	if c == nil {
		return nil, errdefs.InvalidArgumentf("a log entry has the unknown command %d: run the same version on all servers", data[1])
	}
	p, ok := c.(packed)
	if !ok {
		return c, entryCodec.Decode(data[2:], c)
	}
	form := p.packedForm()
	if err := entryCodec.Decode(data[2:], form); err != nil {
		return nil, err
	}
	return c, p.unpack(form)
}

// Batch is several independent commands in one entry. Its result is the first error.
type Batch struct{ Commands []Command }

func (*Batch) kind() byte { return kindBatch }

func (b *Batch) apply(tx *state.Tx) error {
	var first error
	for _, c := range b.Commands {
		if err := c.apply(tx); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// answer returns nil, or the answers of all commands if at least one of them has one.
func (b *Batch) answer() any {
	var out []any
	for i, c := range b.Commands {
		if a, ok := c.(answering); ok && a.answer() != nil {
			if out == nil {
				out = make([]any, len(b.Commands))
			}
			out[i] = a.answer()
		}
	}
	if out == nil {
		return nil
	}
	return out
}

type packedBatch struct{ Entries [][]byte }

func (b *Batch) packedForm() any { return &packedBatch{} }

func (b *Batch) pack() (any, error) {
	form := &packedBatch{}
	for _, c := range b.Commands {
		data, err := Encode(c)
		if err != nil {
			return nil, err
		}
		form.Entries = append(form.Entries, data)
	}
	return form, nil
}

func (b *Batch) unpack(form any) error {
	for _, data := range form.(*packedBatch).Entries {
		if len(data) > 1 && data[1] == kindBatch {
			return errdefs.InvalidArgumentf("a batch within a batch; propose its commands in one")
		}
		c, err := Decode(data)
		if err != nil {
			return err
		}
		b.Commands = append(b.Commands, c)
	}
	return nil
}
