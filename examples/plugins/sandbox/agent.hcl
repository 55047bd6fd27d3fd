# Configuration of the agent that `make run` starts.
plugin "sandbox" {
  config {
    shell = "/bin/sh"
  }
}
