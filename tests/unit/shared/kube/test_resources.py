"""The table of kinds."""

from shared.kube.resources import ALL_KINDS, KINDS_BY_PLURAL, NODES, PODS


def test_each_kind_stands_there_once() -> None:
    assert len(KINDS_BY_PLURAL) == len(ALL_KINDS)
    assert len({kind.struct_type for kind in ALL_KINDS}) == len(ALL_KINDS)


def test_paths() -> None:
    assert PODS.api_paths == ("/api/v1",)
    budgets = KINDS_BY_PLURAL["poddisruptionbudgets"]
    assert budgets.api_paths == ("/apis/policy/v1", "/apis/policy/v1beta1")
    assert (PODS.api_path, PODS.is_namespaced) == ("/api/v1", True)
    assert (NODES.api_path, NODES.is_namespaced) == ("/api/v1", False)
    replica_sets = KINDS_BY_PLURAL["replicasets"]
    assert (replica_sets.api_path, replica_sets.is_namespaced) == ("/apis/apps/v1", True)


def test_what_decides_over_running_pods_is_never_done_without() -> None:
    for plural in ("pods", "nodes", "poddisruptionbudgets", "persistentvolumeclaims"):
        assert KINDS_BY_PLURAL[plural].is_required
    assert not KINDS_BY_PLURAL["resourceclaims"].is_required


def test_finished_pods_are_not_watched() -> None:
    assert PODS.field_selector == "status.phase!=Succeeded,status.phase!=Failed"
