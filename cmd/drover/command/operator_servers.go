// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
)

func raftListPeers() spec {
	return spec{
		usage: "operator raft list-peers [options]", synopsis: "Lists the servers that take part in consensus",
		setup: func(fs *flag.FlagSet) run {
			stale := fs.Bool("stale", false, "Any server answers, with or without a leader.")
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
		usage: "operator raft remove-peer [options]", synopsis: "Takes a server that will not come back out of consensus",
		setup: func(fs *flag.FlagSet) run {
			id := fs.String("peer-id", "", "Id of the server, as list-peers shows it.")
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
		usage: "operator raft transfer-leadership [options]", synopsis: "Makes another server the leader",
		setup: func(fs *flag.FlagSet) run {
			id := fs.String("peer-id", "", "Id of the server, as list-peers shows it.")
			address := fs.String("peer-address", "", "Address of the server, as list-peers shows it.")
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
		usage: "operator autopilot get-config [options]", synopsis: "Shows how servers are cared for", output: true,
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
		usage: "operator autopilot set-config [options]", synopsis: "Changes how servers are cared for; what no flag names stays",
		setup: func(fs *flag.FlagSet) run {
			cleanup := fs.Bool("cleanup-dead-servers", false, "Takes dead servers out when new ones come.")
			contact := fs.Duration("last-contact-threshold", 0, "How long a healthy server may be without the leader.")
			trailing := fs.Uint64("max-trailing-logs", 0, "How many entries a healthy server may be behind.")
			quorum := fs.Uint("min-quorum", 0, "How many servers there are at least before dead ones are taken out.")
			stable := fs.Duration("server-stabilization-time", 0, "How long a server must be healthy before it may vote.")
			noMigration := fs.Bool("disable-upgrade-migration", false, "Servers of a new version wait for no others.")
			refuse(fs, false, "there are no redundancy zones and no upgrades by tags", "redundancy-zone-tag", "upgrade-version-tag")
			return func(ctx context.Context, s *session, _ []string) error {
				c, err := s.client.AutopilotConfig(ctx)
				if err != nil {
					return err
				}
				changes := 0
				fs.Visit(func(f *flag.Flag) {
					changes++
					switch f.Name {
					case "cleanup-dead-servers":
						c.CleanupDeadServers = *cleanup
					case "last-contact-threshold":
						c.LastContactThreshold = contact.String()
					case "max-trailing-logs":
						c.MaxTrailingLogs = *trailing
					case "min-quorum":
						c.MinQuorum = *quorum
					case "server-stabilization-time":
						c.ServerStabilizationTime = stable.String()
					case "disable-upgrade-migration":
						c.DisableUpgradeMigration = *noMigration
					default:
						changes--
					}
				})
				if changes == 0 {
					return errors.New("no option says what to change; see: drover operator autopilot set-config -h")
				}
				if err := s.client.SetAutopilotConfig(ctx, c); err != nil {
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
						"Node Limit For Feasibility Checks", text(c.NodeLimitForFeasibilityChecks), "Modify Index", text(c.ModifyIndex))
				})
			}
		},
	}
}

func schedulerSet() spec {
	return spec{
		usage: "operator scheduler set-config [options]", synopsis: "Changes the configuration of the scheduler; what no flag names stays",
		setup: func(fs *flag.FlagSet) run {
			check := fs.String("check-index", "", "Changes it only if it is at this index.")
			var want model.SchedulerConfiguration
			set := map[string]func(*model.SchedulerConfiguration){}
			flagOf := func(name, usage string, field func(*model.SchedulerConfiguration) *bool) {
				fs.BoolVar(field(&want), name, false, usage)
				set[name] = func(c *model.SchedulerConfiguration) { *field(c) = *field(&want) }
			}
			fs.StringVar(&want.SchedulerAlgorithm, "scheduler-algorithm", "", "binpack fills nodes one after the other, spread fills all evenly.")
			set["scheduler-algorithm"] = func(c *model.SchedulerConfiguration) { c.SchedulerAlgorithm = want.SchedulerAlgorithm }
			fs.IntVar(&want.NodeLimitForFeasibilityChecks, "node-limit-for-feasibility-checks", 0, "Not acted on, with a warning: every feasible node is looked at.")
			set["node-limit-for-feasibility-checks"] = func(c *model.SchedulerConfiguration) {
				c.NodeLimitForFeasibilityChecks = want.NodeLimitForFeasibilityChecks
			}
			flagOf("memory-oversubscription", "Tasks may use more memory than they reserve, up to memory_max.", func(c *model.SchedulerConfiguration) *bool { return &c.MemoryOversubscriptionEnabled })
			flagOf("reject-job-registration", "Only management tokens may register jobs.", func(c *model.SchedulerConfiguration) *bool { return &c.RejectJobRegistration })
			flagOf("pause-eval-broker", "Evaluations wait and nothing is placed.", func(c *model.SchedulerConfiguration) *bool { return &c.PauseEvalBroker })
			flagOf("preempt-system-scheduler", "System jobs may evict lower priorities.", func(c *model.SchedulerConfiguration) *bool { return &c.PreemptionConfig.SystemSchedulerEnabled })
			flagOf("preempt-service-scheduler", "Service jobs may evict lower priorities.", func(c *model.SchedulerConfiguration) *bool { return &c.PreemptionConfig.ServiceSchedulerEnabled })
			flagOf("preempt-batch-scheduler", "Batch jobs may evict lower priorities.", func(c *model.SchedulerConfiguration) *bool { return &c.PreemptionConfig.BatchSchedulerEnabled })
			flagOf("preempt-sysbatch-scheduler", "Sysbatch jobs may evict lower priorities.", func(c *model.SchedulerConfiguration) *bool { return &c.PreemptionConfig.SysBatchSchedulerEnabled })
			return func(ctx context.Context, s *session, _ []string) error {
				c, err := s.client.SchedulerConfig(ctx)
				if err != nil {
					return err
				}
				changes := 0
				fs.Visit(func(f *flag.Flag) {
					if change := set[f.Name]; change != nil {
						change(c)
						changes++
					}
				})
				if changes == 0 {
					return errors.New("no option says what to change; see: drover operator scheduler set-config -h")
				}
				cas := &c.ModifyIndex // nobody else's change is undone
				if *check != "" {
					_, index, err := checkIndex(*check)
					if err != nil {
						return err
					}
					cas = &index
				}
				updated, err := s.client.SetSchedulerConfig(ctx, c, cas)
				if err != nil {
					return err
				}
				if !updated {
					return fmt.Errorf("the configuration is not at index %d any more; read it again with: drover operator scheduler get-config", *cas)
				}
				s.printf("Scheduler configuration updated!")
				return nil
			}
		},
	}
}

func gossipGenerate() spec {
	return spec{
		usage: "operator gossip keyring generate", synopsis: "Makes a key for the gossip of servers", offline: true,
		setup: func(*flag.FlagSet) run {
			return func(_ context.Context, s *session, _ []string) error {
				key := make([]byte, 32)
				if _, err := rand.Read(key); err != nil {
					return fmt.Errorf("this machine gives no randomness: %w", err)
				}
				s.printf("%s", base64.StdEncoding.EncodeToString(key))
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
		usage: "operator root keyring list [options]", synopsis: "Lists the keys of the servers",
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
		usage: "operator root keyring rotate [options]", synopsis: "Makes a new key for variables and identities",
		setup: func(fs *flag.FlagSet) run {
			full := fs.Bool("full", false, "Encrypts all variables with the new key, in the background.")
			now := fs.Bool("now", false, "The key is used at once. The default.")
			prepublish := fs.Duration("prepublish", 0, "The key is published now, and used after this time. Verifiers may keep what was published before for an hour.")
			return func(ctx context.Context, s *session, _ []string) error {
				if *now && *prepublish > 0 {
					return errors.New("give either -now or -prepublish")
				}
				var at int64
				if *prepublish > 0 {
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
		usage: "operator root keyring remove [options] <key ID>", synopsis: "Forgets a key that nothing is encrypted with any more", min: 1, max: 1,
		setup: func(fs *flag.FlagSet) run {
			refuse(fs, true, "variables that a removed key encrypted could never be read again; rotate with -full and remove the key then", "force")
			return func(ctx context.Context, s *session, args []string) error {
				if err := s.client.RemoveRootKey(ctx, args[0]); err != nil {
					return err
				}
				s.printf("Removed encryption key %s", args[0])
				return nil
			}
		},
	}
}
