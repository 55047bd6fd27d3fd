# An example of a job. Try it on a dev agent:
#
#   drover agent -dev
#   drover job plan example.nomad.hcl
#   drover job run example.nomad.hcl
#   drover job status example
#   drover alloc logs -f -job example
#
# docs/cli.md of Drover lists the commands. Lines that are commented out show other
# settings, with their defaults if they have any.

# The value of a variable comes from -var, -var-file, DROVER_VAR_greeting or its default.
variable "greeting" {
  type        = string
  default     = "hello"
  description = "What the task says."
}

# A job is run, stopped and rolled back as a whole.
job "example" {
  # "service" runs until it is stopped, "batch" until it completes, "system" on every
  # node until it is stopped, and "sysbatch" on every node until it completes.
  type = "service"

  # Where it may run. The defaults are all datacenters and the node pool "default".
  # datacenters = ["*"]
  # node_pool   = "default"

  # Jobs of higher priority are placed first (1 to 100).
  # priority = 50

  # Only matching nodes are used. `drover node status -verbose NODE` lists the
  # attributes of a node.
  constraint {
    attribute = "${attr.kernel.name}"
    operator  = "regexp"
    value     = "linux|darwin"
  }

  # Matching nodes are preferred.
  # affinity {
  #   attribute = "${node.datacenter}"
  #   value     = "dc1"
  #   weight    = 50
  # }

  # Allocations are spread over the values of an attribute.
  # spread {
  #   attribute = "${node.unique.id}"
  # }

  # How a new version replaces the old one.
  update {
    # Number of allocations that are replaced at a time.
    max_parallel = 1

    # The time for which an allocation must run before it counts as healthy, its time
    # limit for that, and the time limit for progress of the roll-out.
    min_healthy_time  = "2s"
    healthy_deadline  = "1m"
    progress_deadline = "2m"

    # Whether a failed roll-out reverts to the last stable version.
    auto_revert = true

    # New allocations that run beside the old ones until `drover job promote example`.
    # canary = 1
  }

  # Metadata. Tasks get it as NOMAD_META_owner.
  meta {
    owner = "me"
  }

  # The tasks of a group run together on one node.
  group "app" {
    # Number of allocations of the group.
    count = 1

    # Without `static` a free port of the node is assigned. Tasks get it as
    # NOMAD_PORT_http and NOMAD_ADDR_http.
    network {
      port "http" {}
    }

    # The name by which others find the group: drover service info example-app
    service {
      name     = "example-app"
      port     = "http"
      provider = "nomad"
    }

    # What happens when a task fails: restarts on this node, then on another one.
    restart {
      attempts = 2
      interval = "30m"
      delay    = "5s"
      mode     = "fail"
    }
    # reschedule {
    #   delay          = "30s"
    #   delay_function = "exponential"
    #   max_delay      = "1h"
    #   unlimited      = true
    # }

    # Disk space in MB that the tasks of an allocation share.
    ephemeral_disk {
      size = 100
    }

    # A task is a process or a container.
    task "server" {
      # raw_exec does not isolate tasks and works everywhere; exec isolates them on Linux.
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while :; do echo \"$GREETING from $NOMAD_ALLOC_NAME, at $NOMAD_ADDR_http\"; sleep 10; done"]
      }

      env {
        GREETING = "${var.greeting}"
      }

      # The resources that the scheduler reserves, in MHz and MB.
      resources {
        cpu    = 100
        memory = 64
      }

      # Number and size in MB of the files in which output is kept.
      logs {
        max_files     = 3
        max_file_size = 10
      }

      # How a task is stopped: with this signal, and with SIGKILL after the timeout.
      # kill_signal  = "SIGINT"
      # kill_timeout = "5s"

      # Files to fetch before the task starts.
      # artifact {
      #   source = "https://example.com/file.tar.gz"
      #   options {
      #     checksum = "sha256:..."
      #   }
      # }

      # Files to render before the task starts, and again when their inputs change.
      # template {
      #   data        = "listen = {{ env \"NOMAD_ADDR_http\" }}"
      #   destination = "local/app.conf"
      #   change_mode = "restart"
      # }
    }
  }
}
