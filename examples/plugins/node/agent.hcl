# Configuration of the agent that `make run` starts: curl -s localhost:4646/v1/metrics?format=prometheus | grep lookup
telemetry {
  publish_node_metrics = true
  prometheus_metrics   = true
}

plugin "lookup" {
  config {
    names = ["localhost"]
  }
}
