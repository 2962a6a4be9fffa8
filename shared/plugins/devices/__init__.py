"""DynamicResources: devices for a pod's claims. The search itself is `shared/dra`."""
