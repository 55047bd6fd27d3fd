job "example" {
  group "app" {
    network {
      port "http" {}
    }

    task "server" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo \"would listen on $NOMAD_ADDR_http\"; exec sleep 86400"]
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
