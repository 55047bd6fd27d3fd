// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
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

// The kinds of commands. A number must never be reused.
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
	kindReportAllocs           = 32
	kindPutVariable            = 40
	kindDeleteVariable         = 41
	kindUpsertRootKey          = 42
	kindDeleteRootKey          = 43
	kindActivateRootKey        = 44
	kindUpsertServerKey        = 45
	kindDeleteServerKey        = 46
	kindWrapRootKey            = 47
	kindRegisterPlugin         = 60
	kindDeletePlugin           = 61
	kindSteerPluginRollout     = 62
	kindStepPluginRollout      = 63
	kindAddDriverSchemas       = 64
	kindMarkDriverSchemas      = 65
	kindDeleteDriverSchemas    = 66
	kindDeleteService          = 67
	kindBeginTerm              = 70
	kindRaiseLevel             = 71
	kindSetAutopilotConfig     = 72
	kindPutHostVolume          = 80
	kindMarkHostVolume         = 81
	kindDeleteHostVolume       = 82
	kindDeleteVolumeClaim      = 83
	kindPutCSIVolume           = 84
	kindMarkCSIVolume          = 85
	kindDeleteCSIVolume        = 86
	kindPutCSIAttachment       = 87
)

// commands lists every kind of command: the capability level from which servers can read
// it, and how an empty one is made. A new command has the newest Level, and a row of this
// list never changes.
var commands = [256]struct {
	level int
	empty func() Command
}{
	kindBatch:                  {1, empty[Batch]},
	kindUpsertJob:              {1, empty[UpsertJob]},
	kindDeregisterJob:          {1, empty[DeregisterJob]},
	kindSetJobStability:        {1, empty[SetJobStability]},
	kindSetJobVersionTag:       {1, empty[SetJobVersionTag]},
	kindUpsertEvals:            {1, empty[UpsertEvals]},
	kindDeleteEvals:            {1, empty[DeleteEvals]},
	kindUpdateDesired:          {1, empty[UpdateDesiredTransitions]},
	kindRegisterNode:           {1, empty[RegisterNode]},
	kindDeregisterNodes:        {1, empty[DeregisterNodes]},
	kindUpdateNodeStatus:       {1, empty[UpdateNodeStatus]},
	kindUpdateNodeDrain:        {1, empty[UpdateNodeDrain]},
	kindUpdateNodeEligibility:  {1, empty[UpdateNodeEligibility]},
	kindUpsertNodeEvents:       {1, empty[UpsertNodeEvents]},
	kindUpdateDeploymentStatus: {1, empty[UpdateDeploymentStatus]},
	kindPromoteDeployment:      {1, empty[PromoteDeployment]},
	kindSetDeploymentHealth:    {1, empty[SetDeploymentAllocHealth]},
	kindDeleteDeployments:      {1, empty[DeleteDeployments]},
	kindUpsertNamespaces:       {1, empty[UpsertNamespaces]},
	kindDeleteNamespaces:       {1, empty[DeleteNamespaces]},
	kindUpsertNodePools:        {1, empty[UpsertNodePools]},
	kindDeleteNodePools:        {1, empty[DeleteNodePools]},
	kindSetSchedulerConfig:     {1, empty[SetSchedulerConfig]},
	kindDispatchJob:            {1, empty[DispatchJob]},
	kindLaunchPeriodic:         {1, empty[LaunchPeriodic]},
	kindRecountJobs:            {1, empty[RecountJobs]},
	kindApplyPlan:              {1, empty[ApplyPlan]},
	kindScaleJob:               {1, empty[ScaleJob]},
	kindUpdateAllocsFromClient: {1, empty[UpdateAllocsFromClient]},
	kindReportAllocs:           {2, empty[ReportAllocs]},
	kindPutVariable:            {1, empty[PutVariable]},
	kindDeleteVariable:         {1, empty[DeleteVariable]},
	kindUpsertRootKey:          {1, empty[UpsertRootKey]},
	kindDeleteRootKey:          {1, empty[DeleteRootKey]},
	kindActivateRootKey:        {1, empty[ActivateRootKey]},
	kindUpsertServerKey:        {2, empty[UpsertServerKey]},
	kindDeleteServerKey:        {2, empty[DeleteServerKey]},
	kindWrapRootKey:            {2, empty[WrapRootKey]},
	kindRegisterPlugin:         {1, empty[RegisterPlugin]},
	kindDeletePlugin:           {1, empty[DeletePlugin]},
	kindSteerPluginRollout:     {1, empty[SteerPluginRollout]},
	kindStepPluginRollout:      {1, empty[StepPluginRollout]},
	kindAddDriverSchemas:       {1, empty[AddDriverSchemas]},
	kindMarkDriverSchemas:      {1, empty[MarkDriverSchemas]},
	kindDeleteDriverSchemas:    {1, empty[DeleteDriverSchemas]},
	kindDeleteService:          {2, empty[DeleteService]},
	kindBeginTerm:              {1, empty[BeginTerm]},
	kindRaiseLevel:             {2, empty[RaiseLevel]},
	kindSetAutopilotConfig:     {2, empty[SetAutopilotConfig]},
	kindPutHostVolume:          {2, empty[PutHostVolume]},
	kindMarkHostVolume:         {2, empty[MarkHostVolume]},
	kindDeleteHostVolume:       {2, empty[DeleteHostVolume]},
	kindDeleteVolumeClaim:      {2, empty[DeleteVolumeClaim]},
	kindPutCSIVolume:           {2, empty[PutCSIVolume]},
	kindMarkCSIVolume:          {2, empty[MarkCSIVolume]},
	kindDeleteCSIVolume:        {2, empty[DeleteCSIVolume]},
	kindPutCSIAttachment:       {2, empty[PutCSIAttachment]},
}

func empty[C any, P interface {
	*C
	Command
}]() Command {
	return P(new(C))
}

// newCommand returns an empty command of the kind, nil if there is none.
func newCommand(kind byte) Command {
	if commands[kind].empty == nil {
		return nil
	}
	return commands[kind].empty()
}

// packed is a command whose stored form differs from the one that its proposer fills
// in.
type packed interface {
	pack() (any, error)
	packedForm() any
	unpack(form any) error
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

// needs returns the highest level of the commands.
func (b *Batch) needs() int {
	level := 1
	for _, c := range b.Commands {
		level = max(level, levelOf(c))
	}
	return level
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
		if h, err := readHead(data); err == nil && h.kind == kindBatch {
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
