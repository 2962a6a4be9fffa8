"""What the replay through real processes shows the owner."""

import msgspec

from bench.conformance.pipeline_evaluator import PendingInScenario
from shared.kube.api.core_v1 import Pod
from shared.kube.pod_record import decode_template


def test_a_pod_that_is_held_back_names_its_claims_as_before() -> None:
    claims = [{"name": n, "persistentVolumeClaim": {"claimName": n}} for n in ("c-0", "c-1")]
    meta = {"name": "p", "namespace": "default", "uid": "u"}
    body = {"metadata": meta, "spec": {"volumes": claims}, "status": {}}
    pending = PendingInScenario(msgspec.convert(body, Pod), "default-scheduler")
    for record in (pending.record, pending.held(), pending.held()):
        own = decode_template(record.template).own
        assert own is not None
        assert own.claim_names == ["c-0", "c-1"]
