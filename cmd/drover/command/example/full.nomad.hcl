# An example of a job. Try it on a dev agent:
#
#   drover agent -dev
#   drover job plan example.nomad.hcl
#   drover job run example.nomad.hcl
#   drover job status example
#   drover alloc logs -f -job example
#
# docs/cli.md of Drover lists the commands. What is commented out here shows
# what else there is, with its default where it has one.

# Variables get their values from -var, -var-file, DROVER_VAR_greeting or here.
variable "greeting" {
  type        = string
  default     = "hello"
  description = "What the task says."
}

# A job is what is run, stopped and rolled back as one.
job "example" {
  # "service" runs until it is stopped, "batch" until it is done, "system" once
  # on every node, "sysbatch" is both of the latter.
  type = "service"

  # Where it may run: all datacenters and the node pool "default".
  # datacenters = ["*"]
  # node_pool   = "default"

  # Jobs of higher priority are placed first (1 to 100).
  # priority = 50

  # Only nodes that fit are used. `drover node status -verbose NODE` shows what
  # can be asked for.
  constraint {
    attribute = "${attr.kernel.name}"
    operator  = "regexp"
    value     = "linux|darwin"
  }

  # Nodes that fit better are taken first.
  # affinity {
  #   attribute = "${node.datacenter}"
  #   value     = "dc1"
  #   weight    = 50
  # }

  # Allocations are spread over what an attribute says.
  # spread {
  #   attribute = "${node.unique.id}"
  # }

  # How a new version replaces the old one.
  update {
    # How many allocations are replaced at once.
    max_parallel = 1

    # How long an allocation must run before it counts as healthy, until when it
    # has to be, and how long the roll-out may stand still.
    min_healthy_time  = "2s"
    healthy_deadline  = "1m"
    progress_deadline = "2m"

    # Whether a failed roll-out goes back to the last version that worked.
    auto_revert = true

    # New allocations beside the old ones, until `drover job promote example`.
    # canary = 1
  }

  # Metadata that tasks see as NOMAD_META_owner.
  meta {
    owner = "me"
  }

  # Tasks of a group run together on one node.
  group "app" {
    # How many allocations of the group there are.
    count = 1

    # Ports are free ports of the node unless `static` says otherwise; tasks
    # find them in NOMAD_PORT_http and NOMAD_ADDR_http.
    network {
      port "http" {}
    }

    # Others find the group by this name: drover service info example-app
    service {
      name     = "example-app"
      port     = "http"
      provider = "nomad"
    }

    # What happens when a task fails: again on this node, then elsewhere.
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

    # Disk that the tasks of an allocation share, in MB.
    ephemeral_disk {
      size = 100
    }

    # A task is one process, or container.
    task "server" {
      # raw_exec isolates nothing and works everywhere; exec isolates on Linux.
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while :; do echo \"$GREETING from $NOMAD_ALLOC_NAME, at $NOMAD_ADDR_http\"; sleep 10; done"]
      }

      env {
        GREETING = "${var.greeting}"
      }

      # What the scheduler reserves: MHz and MB.
      resources {
        cpu    = 100
        memory = 64
      }

      # Output is kept in this many files of this many MB.
      logs {
        max_files     = 3
        max_file_size = 10
      }

      # How a task is stopped: this signal, and SIGKILL if it takes longer.
      # kill_signal  = "SIGINT"
      # kill_timeout = "5s"

      # Files that are fetched before the task starts.
      # artifact {
      #   source = "https://example.com/file.tar.gz"
      #   options {
      #     checksum = "sha256:..."
      #   }
      # }

      # Files that are made before the task starts, and anew when what they are
      # made of changes.
      # template {
      #   data        = "listen = {{ env \"NOMAD_ADDR_http\" }}"
      #   destination = "local/app.conf"
      #   change_mode = "restart"
      # }
    }
  }
}
