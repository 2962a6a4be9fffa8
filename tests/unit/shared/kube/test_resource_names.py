"""Which resources are counted as scalars."""

import pytest

from shared.kube.resource_names import is_extended, is_scalar, is_supported_at_pod_level


@pytest.mark.parametrize(
    "name",
    [
        "example.com/gpu",
        "nvidia.com/mig-1g.5gb",
        "hugepages-2Mi",
        "attachable-volumes-aws-ebs",
        "kubernetes.io/batch-cpu",
        "deviceclass.resource.kubernetes.io/gpu",
    ],
)
def test_counted_as_scalars(name: str) -> None:
    assert is_scalar(name)


@pytest.mark.parametrize(
    "name",
    [
        "cpu",
        "memory",
        "ephemeral-storage",
        "pods",
        "storage",
        "requests.example.com/gpu",
        "a.b/",
        "/x",
        "UPPER.example/x",
        "example.com/-x",
    ],
)
def test_not_counted_as_scalars(name: str) -> None:
    assert not is_scalar(name)


def test_names_may_be_so_long_that_no_quota_could_name_them() -> None:
    longest = ".".join(["a" * 60] * 4)
    assert is_extended(f"{longest}/x")
    assert not is_extended(f"{longest}{'.a' * 10}/x")
    assert is_extended(f"example.com/{'x' * 63}")
    assert not is_extended(f"example.com/{'x' * 64}")


def test_pod_level_requests_know_cpu_memory_and_huge_pages() -> None:
    assert is_supported_at_pod_level("cpu")
    assert is_supported_at_pod_level("memory")
    assert is_supported_at_pod_level("hugepages-1Gi")
    assert not is_supported_at_pod_level("ephemeral-storage")
    assert not is_supported_at_pod_level("example.com/gpu")
