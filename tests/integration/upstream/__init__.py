"""Tests that mirror kube-scheduler's integration tests (test/integration/scheduler, v1.36) by name."""
