"""DefaultBinder: that a pod is bound by its `binding` subresource."""
