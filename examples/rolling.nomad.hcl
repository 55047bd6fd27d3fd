# A rolling update with a canary: register it, change `release`, register it
# again and promote: drover run -var release=2 examples/rolling.nomad.hcl
variable "release" {
  type    = number
  default = 1
}

job "rolling" {
  group "app" {
    count = 3

    update {
      max_parallel      = 1
      canary            = 1
      auto_promote      = true
      auto_revert       = true
      min_healthy_time  = "1s"
      healthy_deadline  = "20s"
      progress_deadline = "1m"
    }

    task "app" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo release $RELEASE; exec sleep 86400"]
      }

      env {
        RELEASE = "${var.release}"
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
