// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
)

func raftListPeers() spec {
	return spec{
		usage: "operator raft list-peers [options]", synopsis: "Lists the servers in the raft configuration",
		setup: func(fs *flag.FlagSet) run {
			stale := fs.Bool("stale", false, "Lets any server answer, even without a leader; the answer may be stale.")
			return func(ctx context.Context, s *session, _ []string) error {
				cfg, err := s.client.RaftConfiguration(ctx, &client.Query{Stale: *stale})
				if err != nil {
					return err
				}
				var rows [][]string
				for _, x := range cfg.Servers {
					state := "follower"
					if x.Leader {
						state = "leader"
					}
					rows = append(rows, []string{x.Node, x.ID, x.Address, state, text(x.Voter), x.RaftProtocol})
				}
				s.table([]string{"Node", "ID", "Address", "State", "Voter", "RaftProtocol"}, rows)
				s.warnOfDoors(ctx)
				return nil
			}
		},
	}
}

func raftRemovePeer() spec {
	return spec{
		usage: "operator raft remove-peer [options]", synopsis: "Removes a server that will not return from the raft configuration",
		setup: func(fs *flag.FlagSet) run {
			id := fs.String("peer-id", "", "ID of the server, as shown by list-peers.")
			return func(ctx context.Context, s *session, _ []string) error {
				if *id == "" {
					return errors.New("give the server with -peer-id; see: drover operator raft list-peers")
				}
				if err := s.client.RemoveRaftPeer(ctx, *id, ""); err != nil {
					return err
				}
				s.printf("Removed peer with id %q", *id)
				return nil
			}
		},
	}
}

func raftTransferLeadership() spec {
	return spec{
		usage: "operator raft transfer-leadership [options]", synopsis: "Transfers leadership to another server",
		setup: func(fs *flag.FlagSet) run {
			id := fs.String("peer-id", "", "ID of the server, as shown by list-peers.")
			address := fs.String("peer-address", "", "Address of the server, as shown by list-peers.")
			return func(ctx context.Context, s *session, _ []string) error {
				if (*id == "") == (*address == "") {
					return errors.New("give either -peer-id or -peer-address; see: drover operator raft list-peers")
				}
				if err := s.client.TransferLeadership(ctx, *id, *address); err != nil {
					return err
				}
				s.printf("Transferred leadership to peer %q", *id+*address)
				return nil
			}
		},
	}
}

func autopilotHealth() spec {
	return spec{
		usage: "operator autopilot health [options]", synopsis: "Shows the health of the servers", output: true,
		setup: func(*flag.FlagSet) run {
			return func(ctx context.Context, s *session, _ []string) error {
				h, err := s.client.AutopilotHealth(ctx)
				s.warnOfDoors(ctx)
				return s.show(h, err, func() {
					s.pairs("Healthy", text(h.Healthy), "FailureTolerance", text(h.FailureTolerance), "Leader", h.Leader)
					s.printf("")
					var rows [][]string
					for _, x := range h.Servers {
						rows = append(rows, []string{x.ID, x.Name, x.Address, x.SerfStatus, x.Version, text(x.Leader), text(x.Voter), text(x.Healthy), x.LastContact, text(x.LastTerm), text(x.LastIndex), when(x.StableSince)})
					}
					s.table([]string{"ID", "Name", "Address", "SerfStatus", "Version", "Leader", "Voter", "Healthy", "LastContact", "LastTerm", "LastIndex", "StableSince"}, rows)
				})
			}
		},
	}
}

func autopilotGet() spec {
	return spec{
		usage: "operator autopilot get-config [options]", synopsis: "Shows the autopilot configuration", output: true,
		setup: func(*flag.FlagSet) run {
			return func(ctx context.Context, s *session, _ []string) error {
				c, err := s.client.AutopilotConfig(ctx)
				return s.show(c, err, func() {
					s.pairs("CleanupDeadServers", text(c.CleanupDeadServers), "LastContactThreshold", c.LastContactThreshold, "MaxTrailingLogs", text(c.MaxTrailingLogs),
						"MinQuorum", text(int(c.MinQuorum)), "ServerStabilizationTime", c.ServerStabilizationTime, "EnableRedundancyZones", text(c.EnableRedundancyZones),
						"DisableUpgradeMigration", text(c.DisableUpgradeMigration), "EnableCustomUpgrades", text(c.EnableCustomUpgrades))
				})
			}
		},
	}
}

func autopilotSet() spec {
	return spec{
		usage: "operator autopilot set-config [options]", synopsis: "Changes the autopilot configuration; settings without a flag stay as they are",
		setup: func(fs *flag.FlagSet) run {
			var want client.AutopilotConfig
			var contact, stable time.Duration
			set := map[string]func(*client.AutopilotConfig){}
			setting := func(name string, take func(c *client.AutopilotConfig)) { set[name] = take }
			fs.BoolVar(&want.CleanupDeadServers, "cleanup-dead-servers", false, "Removes failed servers while enough others vote.")
			setting("cleanup-dead-servers", func(c *client.AutopilotConfig) { c.CleanupDeadServers = want.CleanupDeadServers })
			fs.DurationVar(&contact, "last-contact-threshold", 0, "Longest time that a healthy server may go without contact to the leader.")
			setting("last-contact-threshold", func(c *client.AutopilotConfig) { c.LastContactThreshold = contact.String() })
			fs.Uint64Var(&want.MaxTrailingLogs, "max-trailing-logs", 0, "Number of log entries that a healthy server may be behind the leader.")
			setting("max-trailing-logs", func(c *client.AutopilotConfig) { c.MaxTrailingLogs = want.MaxTrailingLogs })
			fs.UintVar(&want.MinQuorum, "min-quorum", 0, "Number of healthy voters below which no server loses its vote; 0 means 3.")
			setting("min-quorum", func(c *client.AutopilotConfig) { c.MinQuorum = want.MinQuorum })
			fs.DurationVar(&stable, "server-stabilization-time", 0, "Time that a new server must be healthy before it becomes a voter.")
			setting("server-stabilization-time", func(c *client.AutopilotConfig) { c.ServerStabilizationTime = stable.String() })
			fs.BoolVar(&want.DisableUpgradeMigration, "disable-upgrade-migration", false, "Promotes servers of a new version at once, without waiting for others of that version.")
			setting("disable-upgrade-migration", func(c *client.AutopilotConfig) { c.DisableUpgradeMigration = want.DisableUpgradeMigration })
			fs.BoolVar(&want.EnableRedundancyZones, "enable-redundancy-zones", false, "Lets one server of each redundancy_zone vote; the others stand by.")
			setting("enable-redundancy-zones", func(c *client.AutopilotConfig) { c.EnableRedundancyZones = want.EnableRedundancyZones })
			fs.BoolVar(&want.EnableCustomUpgrades, "enable-custom-upgrades", false, "Compares the servers' upgrade_version instead of their releases.")
			setting("enable-custom-upgrades", func(c *client.AutopilotConfig) { c.EnableCustomUpgrades = want.EnableCustomUpgrades })
			check := fs.String("check-index", "", "Changes the configuration only if its modify index is this.")
			refuse(fs, false, "a server's zone is server.redundancy_zone in its configuration; turn zones on with -enable-redundancy-zones", "redundancy-zone-tag")
			refuse(fs, false, "a server's version is server.upgrade_version in its configuration; turn these versions on with -enable-custom-upgrades", "upgrade-version-tag")
			return func(ctx context.Context, s *session, _ []string) error {
				config := clusterConfig[client.AutopilotConfig]{
					name: "autopilot", read: s.client.AutopilotConfig, write: s.client.SetAutopilotConfig,
					index: func(c *client.AutopilotConfig) uint64 { return c.ModifyIndex },
				}
				if err := config.change(ctx, fs, set, *check); err != nil {
					return err
				}
				s.printf("Configuration updated!")
				return nil
			}
		},
	}
}

func schedulerGet() spec {
	return spec{
		usage: "operator scheduler get-config [options]", synopsis: "Shows the configuration of the scheduler", output: true,
		setup: func(*flag.FlagSet) run {
			return func(ctx context.Context, s *session, _ []string) error {
				c, err := s.client.SchedulerConfig(ctx)
				return s.show(c, err, func() {
					p := c.PreemptionConfig
					s.pairs("Scheduler Algorithm", c.SchedulerAlgorithm, "Memory Oversubscription", text(c.MemoryOversubscriptionEnabled),
						"Reject Job Registration", text(c.RejectJobRegistration), "Pause Eval Broker", text(c.PauseEvalBroker),
						"Preemption System Scheduler", text(p.SystemSchedulerEnabled), "Preemption Service Scheduler", text(p.ServiceSchedulerEnabled),
						"Preemption Batch Scheduler", text(p.BatchSchedulerEnabled), "Preemption SysBatch Scheduler", text(p.SysBatchSchedulerEnabled),
						"Node Limit For Feasibility Checks", text(c.NodeLimitForFeasibilityChecks),
						"Queue Order", cmp.Or(c.QueueOrder, model.QueueFair), "Queue Max Depth", text(cmp.Or(c.QueueMaxDepth, model.DefaultQueueDepth)), "Modify Index", text(c.ModifyIndex))
				})
			}
		},
	}
}

func schedulerQueue() spec {
	return spec{
		usage: "operator scheduler queue [options]", synopsis: "Shows the queue of evaluations by namespace and node pool", output: true,
		help: "Namespaces share the workers of the scheduler by their weights, and the node pools\nof a namespace share what it gets. scheduler_config { queue { ... } } in the\nspecification of a namespace or a node pool sets the weight, the order and the depth.",
		setup: func(*flag.FlagSet) run {
			return func(ctx context.Context, s *session, _ []string) error {
				lanes, err := s.client.QueueLanes(ctx)
				return s.show(lanes, err, func() {
					var rows [][]string
					for _, l := range lanes {
						order := "priority"
						if l.Ordered {
							order = "in turn"
						}
						rows = append(rows, []string{l.Namespace, l.NodePool, fmt.Sprintf("%d/%d", l.Weight, l.PoolWeight), order, text(l.Ready), text(l.Unacked), text(l.Waiting), text(l.Holding), text(l.MaxDepth), text(l.Served), l.LastWait.Round(time.Millisecond).String()})
					}
					s.tableOr("No evaluations have come since the leader was elected", []string{"Namespace", "Node Pool", "Weight", "Order", "Ready", "In Work", "Waiting", "Holding", "Max", "Served", "Last Wait"}, rows)
				})
			}
		},
	}
}

func schedulerSet() spec {
	return spec{
		usage: "operator scheduler set-config [options]", synopsis: "Changes the configuration of the scheduler; settings without a flag stay as they are",
		setup: func(fs *flag.FlagSet) run {
			check := fs.String("check-index", "", "Changes the configuration only if its modify index is this.")
			var want model.SchedulerConfiguration
			set := map[string]func(*model.SchedulerConfiguration){}
			flagOf := func(name, usage string, field func(*model.SchedulerConfiguration) *bool) {
				fs.BoolVar(field(&want), name, false, usage)
				set[name] = func(c *model.SchedulerConfiguration) { *field(c) = *field(&want) }
			}
			fs.StringVar(&want.SchedulerAlgorithm, "scheduler-algorithm", "", "Placement algorithm: binpack fills nodes one after another, spread fills them evenly.")
			set["scheduler-algorithm"] = func(c *model.SchedulerConfiguration) { c.SchedulerAlgorithm = want.SchedulerAlgorithm }
			fs.IntVar(&want.NodeLimitForFeasibilityChecks, "node-limit-for-feasibility-checks", 0, "Has no effect, and warns so: the scheduler considers every feasible node.")
			set["node-limit-for-feasibility-checks"] = func(c *model.SchedulerConfiguration) {
				c.NodeLimitForFeasibilityChecks = want.NodeLimitForFeasibilityChecks
			}
			fs.StringVar(&want.QueueOrder, "queue-order", "", "Order of evaluations: fair shares the workers between namespaces by their weights, priority takes the highest priority of the cluster first.")
			set["queue-order"] = func(c *model.SchedulerConfiguration) { c.QueueOrder = want.QueueOrder }
			fs.IntVar(&want.QueueMaxDepth, "queue-max-depth", 0, "Evaluations that may wait per namespace and node pool before further jobs are refused; 0 means 200000.")
			set["queue-max-depth"] = func(c *model.SchedulerConfiguration) { c.QueueMaxDepth = want.QueueMaxDepth }
			flagOf("memory-oversubscription", "Lets tasks use more memory than they reserve, up to memory_max.", func(c *model.SchedulerConfiguration) *bool { return &c.MemoryOversubscriptionEnabled })
			flagOf("reject-job-registration", "Refuses every registration, revert, scaling and dispatch of a job.", func(c *model.SchedulerConfiguration) *bool { return &c.RejectJobRegistration })
			flagOf("pause-eval-broker", "Pauses the evaluation broker: evaluations wait and nothing is placed.", func(c *model.SchedulerConfiguration) *bool { return &c.PauseEvalBroker })
			flagOf("preempt-system-scheduler", "Lets system jobs preempt allocations of less important jobs where no node has room.", func(c *model.SchedulerConfiguration) *bool { return &c.PreemptionConfig.SystemSchedulerEnabled })
			flagOf("preempt-service-scheduler", "Lets service jobs preempt allocations of less important jobs where no node has room.", func(c *model.SchedulerConfiguration) *bool { return &c.PreemptionConfig.ServiceSchedulerEnabled })
			flagOf("preempt-batch-scheduler", "Lets batch jobs preempt allocations of less important jobs where no node has room.", func(c *model.SchedulerConfiguration) *bool { return &c.PreemptionConfig.BatchSchedulerEnabled })
			flagOf("preempt-sysbatch-scheduler", "Lets sysbatch jobs preempt allocations of less important jobs where no node has room.", func(c *model.SchedulerConfiguration) *bool { return &c.PreemptionConfig.SysBatchSchedulerEnabled })
			return func(ctx context.Context, s *session, _ []string) error {
				config := clusterConfig[model.SchedulerConfiguration]{
					name: "scheduler", read: s.client.SchedulerConfig, write: s.client.SetSchedulerConfig,
					index: func(c *model.SchedulerConfiguration) uint64 { return c.ModifyIndex },
				}
				if err := config.change(ctx, fs, set, *check); err != nil {
					return err
				}
				s.printf("Scheduler configuration updated!")
				return nil
			}
		},
	}
}

func gossipGenerate() spec {
	return spec{
		usage: "operator gossip keyring generate", synopsis: "Generates a key for gossip encryption", offline: true,
		setup: func(*flag.FlagSet) run {
			return func(_ context.Context, s *session, _ []string) error {
				key := make([]byte, 32)
				if _, err := rand.Read(key); err != nil {
					return fmt.Errorf("cannot read random bytes from the operating system: %w", err)
				}
				s.printf("%s", base64.StdEncoding.EncodeToString(key))
				return nil
			}
		},
	}
}

// gossipKeys are the commands that change the keys of the gossip.
func gossipKeys(verb, synopsis, done string) func() spec {
	return func() spec {
		return spec{
			usage: "operator gossip keyring " + verb + " [options] <key>", synopsis: synopsis, min: 1, max: 1,
			setup: func(*flag.FlagSet) run {
				return func(ctx context.Context, s *session, args []string) error {
					k, err := s.client.GossipKeys(ctx, verb, args[0])
					if err != nil {
						return err
					}
					s.printf("%s on %d servers", done, k.NumNodes)
					return nil
				}
			},
		}
	}
}

func gossipList() spec {
	return spec{
		usage: "operator gossip keyring list [options]", synopsis: "Lists the keys of the servers' gossip",
		setup: func(*flag.FlagSet) run {
			return func(ctx context.Context, s *session, _ []string) error {
				k, err := s.client.GossipKeys(ctx, "list", "")
				if err != nil {
					return err
				}
				var rows [][]string
				for _, key := range slices.Sorted(maps.Keys(k.Keys)) {
					rows = append(rows, []string{key, fmt.Sprintf("%d/%d", k.Keys[key], k.NumNodes), text(k.PrimaryKeys[key] > 0)})
				}
				s.table([]string{"Key", "Servers", "Encrypts"}, rows)
				return nil
			}
		},
	}
}

func (s *session) keyTable(keys []*client.RootKey) {
	var rows [][]string
	for _, k := range keys {
		published := "<none>"
		if k.PublishTime > 0 {
			published = date(k.PublishTime)
		}
		rows = append(rows, []string{s.id(k.KeyID), k.State, date(k.CreateTime), published})
	}
	s.tableOr("No keys", []string{"Key", "State", "Create Time", "Publish Time"}, rows)
}

func keyringList() spec {
	return spec{
		usage: "operator root keyring list [options]", synopsis: "Lists the root keys",
		setup: func(*flag.FlagSet) run {
			return func(ctx context.Context, s *session, _ []string) error {
				keys, err := s.client.RootKeys(ctx)
				if err != nil {
					return err
				}
				s.keyTable(keys)
				return nil
			}
		},
	}
}

func keyringRotate() spec {
	return spec{
		usage: "operator root keyring rotate [options]", synopsis: "Creates a new root key, which encrypts variables and signs identities",
		setup: func(fs *flag.FlagSet) run {
			full := fs.Bool("full", false, "Re-encrypts all variables with the new key, in the background.")
			now := fs.Bool("now", false, "Activates the key at once. This is the default.")
			prepublish := fs.Duration("prepublish", 0, "Publishes the key now and activates it after this time. Verifiers may cache the published keys for an hour.")
			return func(ctx context.Context, s *session, _ []string) error {
				var at int64
				if given(fs, "prepublish") {
					if *now {
						return errors.New("give either -now or -prepublish")
					}
					if *prepublish <= 0 {
						return fmt.Errorf("-prepublish is %s; give a time above 0, or use -now", *prepublish)
					}
					at = time.Now().Add(*prepublish).UnixNano()
				}
				key, err := s.client.RotateRootKey(ctx, *full, at)
				if err != nil {
					return err
				}
				s.keyTable([]*client.RootKey{key})
				return nil
			}
		},
	}
}

func keyringRemove() spec {
	return spec{
		usage: "operator root keyring remove [options] <key ID>", synopsis: "Removes a root key that encrypts nothing any more", min: 1, max: 1,
		setup: func(fs *flag.FlagSet) run {
			force := fs.Bool("force", false, "Removes the key even if living tasks may have tokens that it has signed, which become invalid. A key that encrypts variables is kept; rotate with -full first.")
			return func(ctx context.Context, s *session, args []string) error {
				if err := s.client.RemoveRootKey(ctx, args[0], *force); err != nil {
					return err
				}
				s.printf("Removed encryption key %s", args[0])
				return nil
			}
		},
	}
}
