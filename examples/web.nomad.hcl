# A web service: two copies of a tiny static server, rolled out one at a time.
# `make demo` runs it. The binary comes from this repository: `go build -o
# bin/webserver ./examples/webserver`.

variable "binary" {
  type        = string
  description = "path of the webserver binary"
}

variable "greeting" {
  type    = string
  default = "hello"
}

job "web" {
  type = "service"

  group "web" {
    count = 2

    update {
      max_parallel     = 1
      min_healthy_time = "1s"
      healthy_deadline = "30s"
    }

    network {
      port "http" {}
    }

    shutdown_delay = "0s"

    task "server" {
      driver = "raw_exec"

      config {
        command = var.binary
      }

      env {
        GREETING = var.greeting
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
