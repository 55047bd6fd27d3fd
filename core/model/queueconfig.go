// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

// Values of SchedulerConfiguration.QueueOrder. With QueueFair, which is the default,
// namespaces share the workers by their weights whatever the priorities of their jobs are.
// With QueuePriority the evaluations of the highest priority come first in the whole
// cluster, and namespaces share by weight only among those of one priority.
const (
	QueueFair     = "fair"
	QueuePriority = "priority"
)

// Limits of a queue.
const (
	MaxQueueWeight = 1000
	// DefaultQueueDepth is the number of evaluations that wait in a lane where none is
	// configured.
	DefaultQueueDepth = 200_000
	MaxQueueDepth     = 10_000_000
)

// QueueConfiguration says how the evaluations of a namespace, or of a node pool, share the
// workers with others. A value of a namespace comes before one of a pool; weights do not
// compete, since pools share what their namespace gets.
type QueueConfiguration struct {
	Weight   int   `json:",omitempty"` // 1 to MaxQueueWeight; 1 by default
	Ordered  *bool `json:",omitempty"` // new jobs wait until those before them are placed
	MaxDepth int   `json:",omitempty"` // evaluations that may wait per namespace and pool
}

// PreemptionOverride overrides single values of a PreemptionConfig.
type PreemptionOverride struct {
	SystemSchedulerEnabled   *bool `json:",omitempty"`
	SysBatchSchedulerEnabled *bool `json:",omitempty"`
	BatchSchedulerEnabled    *bool `json:",omitempty"`
	ServiceSchedulerEnabled  *bool `json:",omitempty"`
}

// LaneRules are the rules for the evaluations of a namespace in a node pool.
type LaneRules struct {
	Weight     int // of the namespace among namespaces
	PoolWeight int // of the pool within the namespace
	Ordered    bool
	MaxDepth   int
}

// Scheduling is the scheduler configuration that holds for one job.
type Scheduling struct {
	SchedulerAlgorithm     string
	MemoryOversubscription bool
	Preemption             PreemptionConfig
}

// SchedulingOf returns what holds for jobs of a node pool and a namespace: the pool comes
// before the namespace, and the namespace before the cluster. All may be nil.
func SchedulingOf(cfg *SchedulerConfiguration, pool *NodePool, ns *Namespace) Scheduling {
	var out Scheduling
	if cfg != nil {
		out = Scheduling{cfg.SchedulerAlgorithm, cfg.MemoryOversubscriptionEnabled, cfg.PreemptionConfig}
	}
	if ns != nil {
		(*NodePoolSchedulerConfiguration)(ns.SchedulerConfiguration).override(&out)
	}
	if pool != nil {
		pool.SchedulerConfiguration.override(&out)
	}
	return out
}

func (c *NodePoolSchedulerConfiguration) override(s *Scheduling) {
	if c == nil {
		return
	}
	if c.SchedulerAlgorithm != "" {
		s.SchedulerAlgorithm = c.SchedulerAlgorithm
	}
	overrule(&s.MemoryOversubscription, c.MemoryOversubscriptionEnabled)
	if p := c.PreemptionConfig; p != nil {
		overrule(&s.Preemption.SystemSchedulerEnabled, p.SystemSchedulerEnabled)
		overrule(&s.Preemption.SysBatchSchedulerEnabled, p.SysBatchSchedulerEnabled)
		overrule(&s.Preemption.BatchSchedulerEnabled, p.BatchSchedulerEnabled)
		overrule(&s.Preemption.ServiceSchedulerEnabled, p.ServiceSchedulerEnabled)
	}
}

func overrule(value, by *bool) {
	if by != nil {
		*value = *by
	}
}

// LaneRulesOf returns the rules for the evaluations of a namespace in a node pool. All may
// be nil.
func LaneRulesOf(cfg *SchedulerConfiguration, pool *NodePool, ns *Namespace) LaneRules {
	out := LaneRules{Weight: 1, PoolWeight: 1, MaxDepth: DefaultQueueDepth}
	if cfg != nil && cfg.QueueMaxDepth > 0 {
		out.MaxDepth = cfg.QueueMaxDepth
	}
	if pool != nil && pool.SchedulerConfiguration != nil {
		pool.SchedulerConfiguration.Queue.override(&out, &out.PoolWeight)
	}
	if ns != nil && ns.SchedulerConfiguration != nil {
		ns.SchedulerConfiguration.Queue.override(&out, &out.Weight)
	}
	return out
}

func (q *QueueConfiguration) override(rules *LaneRules, weight *int) {
	if q == nil {
		return
	}
	if q.Weight > 0 {
		*weight = q.Weight
	}
	if q.MaxDepth > 0 {
		rules.MaxDepth = q.MaxDepth
	}
	overrule(&rules.Ordered, q.Ordered)
}

// Validate returns an error if the configuration is invalid.
func (c *SchedulerConfiguration) Validate() error {
	var p ValidationError
	switch c.QueueOrder {
	case "", QueueFair, QueuePriority:
	default:
		p.addf("QueueOrder %q is neither %q nor %q", c.QueueOrder, QueueFair, QueuePriority)
	}
	validateDepth(&p, "QueueMaxDepth", c.QueueMaxDepth)
	return p.err()
}

// Validate returns an error if the scheduler configuration of the pool is invalid.
func (n *NodePool) Validate() error {
	var p ValidationError
	n.SchedulerConfiguration.validate(&p, "scheduler_config of node pool \""+n.Name+"\"")
	return p.err()
}

func (c *NamespaceSchedulerConfiguration) validate(p *ValidationError, where string) {
	(*NodePoolSchedulerConfiguration)(c).validate(p, where)
}

func (c *NodePoolSchedulerConfiguration) validate(p *ValidationError, where string) {
	if c == nil {
		return
	}
	switch c.SchedulerAlgorithm {
	case "", SchedulerAlgorithmBinpack, SchedulerAlgorithmSpread:
	default:
		p.addf("%s: scheduler_algorithm %q is neither %q nor %q", where, c.SchedulerAlgorithm, SchedulerAlgorithmBinpack, SchedulerAlgorithmSpread)
	}
	if q := c.Queue; q != nil {
		if q.Weight < 0 || q.Weight > MaxQueueWeight {
			p.addf("%s: the weight %d of its queue is not between 1 and %d, or 0 for 1", where, q.Weight, MaxQueueWeight)
		}
		validateDepth(p, where+": max_depth of its queue", q.MaxDepth)
	}
}

func validateDepth(p *ValidationError, what string, depth int) {
	if depth < 0 || depth > MaxQueueDepth {
		p.addf("%s is %d, which is not between 1 and %d, or 0 for the default", what, depth, MaxQueueDepth)
	}
}
