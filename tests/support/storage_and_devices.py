"""A few claims, volumes and devices that pods of a test compete for."""

from daemon.core.cache import Cache
from tests.support.devices import CLASS, device, make_claim, make_class, make_slice
from tests.support.volumes import put_claim, put_csi_node, put_volume

DRIVER = "csi.example.com"


def put_storage_and_devices(cache: Cache, node_count: int) -> None:
    """A claim for one pod and claims that are volumes of a driver, which attaches two to a node; a
    device on the last node."""
    for name in ("solo", "c0", "c1", "c2", "c3"):
        modes = ["ReadWriteOncePod"] if name == "solo" else ["ReadWriteOnce"]
        put_claim(cache, name, volume=f"pv-{name}", access_modes=modes, phase="Bound")
        source = {"csi": {"driver": DRIVER, "volumeHandle": name}}
        put_volume(cache, f"pv-{name}", claim=name, source=source)
    for i in range(node_count):
        put_csi_node(cache, f"n{i}", {DRIVER: 2})
    last = make_slice(f"n{node_count - 1}", [device("d0")])
    cache.objects.put("deviceclasses", CLASS, make_class())
    cache.objects.put("resourceslices", last.metadata.name, last)
    cache.objects.put("resourceclaims", "default/gpu", make_claim("gpu"))
