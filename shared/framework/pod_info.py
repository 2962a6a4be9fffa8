"""A pod class as plugins see it: a namespace, a template, and what is derived from them once."""

from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from shared.kube.api.core_v1 import PodSpec
from shared.kube.pod_record import (
    PodTemplate,
    decode_shared,
    decode_template,
    split_template,
    with_own,
)
from shared.kube.pod_resources import (
    PodRequests,
    fit_filter_requests,
    fit_score_requests,
    host_ports,
    pod_requests,
)
from shared.kube.pod_volumes import ClaimUse, claim_uses
from shared.kube.term_counts import TermCounts, term_counts
from shared.selectors.node_selector import required_nodes
from shared.selectors.node_terms import Terms
from shared.selectors.pod_terms import PodTerms, TermsAbout, index_of, parse_pod_terms

Found = TypeVar("Found")


class _Once(Generic[Found]):
    """A property that is worked out when it is first asked for; unlike functools' without a lock, which
    costs as much as what is worked out here, for each class of pods."""

    def __init__(self, work_out: Callable[["PodInfo"], Found]) -> None:
        self._work_out = work_out
        self._name = work_out.__name__

    def __get__(self, pod: "PodInfo", _: object = None) -> Found:
        found = pod.__dict__[self._name] = self._work_out(pod)
        return found


class _OfKin(_Once[Found]):
    """The same, once for all pods that differ in their own facts alone."""

    def __get__(self, pod: "PodInfo", _: object = None) -> Found:
        kin = pod.kin
        found = self._work_out(pod) if kin is None else getattr(kin, self._name)
        pod.__dict__[self._name] = found
        return found


class PodInfo:
    """Everything that plugins may read of a pod; equal for all pods of a class. The name and UID of a
    pod are not here: no decision may depend on them (a plugin that needs them makes every pod a class
    of its own, and says so by a `pod_key` in its state)."""

    def __init__(self, namespace: str, template: PodTemplate, kin: "PodInfo | None" = None) -> None:
        """`kin`: what speaks for all pods that differ in `template.own` alone."""
        if kin is not None:
            self.__dict__.update(kin.__dict__)
        self.namespace = namespace
        self.template = template
        self.spec: PodSpec = template.spec
        self.kin = kin

    @_OfKin
    def labels(self) -> dict[str, str]:
        """Without those that nobody selects by, where no plugin looks at these."""
        return self.template.labels or {}

    @property
    def is_labelled(self) -> bool:
        """It has labels, be it that none of them is in `labels`."""
        return self.template.labels is not None

    @_OfKin
    def requests(self) -> PodRequests:
        return pod_requests(self.template)

    @_OfKin
    def fit_filter_requests(self) -> PodRequests:
        """What a node must have free; see `shared.kube.pod_resources` for why there are three."""
        if self.template.status is None:
            return self.requests
        return fit_filter_requests(self.template)

    @_OfKin
    def fit_score_requests(self) -> dict[str, int]:
        return fit_score_requests(self.template, self.requests)

    @_OfKin
    def host_ports(self) -> frozenset[tuple[str, str, int]]:
        """(host IP, protocol, port) that the pod wants; see `shared.columns.table.PortTuple`."""
        return host_ports(self.template)

    @_Once
    def claim_keys(self) -> tuple[str, ...]:
        """`namespace/claim` of each volume that names a claim outright: what a node's claim counts count
        (updatePVCRefCounts in pkg/scheduler/framework/types.go, v1.36)."""
        return tuple(use.key for use in self.claim_uses if not use.is_ephemeral)

    @_Once
    def claim_uses(self) -> tuple[ClaimUse, ...]:
        """Every volume that is a claim, those made for ephemeral volumes included."""
        return claim_uses(self.namespace, self.template)

    @_Once
    def takes_claims(self) -> bool:
        """A placement takes something beside room on the node: of two pods of the class, the second
        finds the claims otherwise than the first did."""
        return bool(self.claim_uses or self.spec.resource_claims)

    def read_for_others(self) -> None:
        """Works out what is read of the pod when others are evaluated: what is wrong with it must not
        come out there."""
        _ = self.requests, self.host_ports, self.pod_terms, self.claim_uses

    @property
    def has_pod_terms(self) -> bool:
        """Affinity or anti-affinity to other pods."""
        affinity = self.spec.affinity
        return affinity is not None and (
            affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None
        )

    @_OfKin
    def pod_terms(self) -> PodTerms:
        """Its affinity and anti-affinity to other pods."""
        return parse_pod_terms(self.namespace, self.spec.affinity)

    @_OfKin
    def terms_about(self) -> TermsAbout:
        """The same by whom they may mean."""
        terms = self.pod_terms
        return TermsAbout(
            index_of(terms.affinity), index_of(terms.anti_affinity), index_of(terms.preferred)
        )

    @_OfKin
    def required_nodes(self) -> tuple[Terms, ...]:
        """What it demands of its node: of each of these, one term has to match."""
        return required_nodes(self.spec)

    @_OfKin
    def term_counts(self) -> TermCounts:
        """How many terms of each kind it has."""
        return term_counts(self.spec)

    @property
    def priority(self) -> int:
        return self.spec.priority or 0


class PodInfos:
    """Makes them of bytes; what many have in common is read once, as long as one of them is there."""

    def __init__(self) -> None:
        self._kin: WeakValueDictionary[tuple[str, bytes], PodInfo] = WeakValueDictionary()

    def of(self, namespace: str, raw: bytes) -> PodInfo:
        """`raw`: a `PodTemplate` as msgpack."""
        shared, own = split_template(raw)
        if own is None:
            return PodInfo(namespace, decode_template(raw))
        kin = self._kin.get((namespace, shared))
        if kin is None:
            kin = self._kin[namespace, shared] = PodInfo(namespace, decode_shared(raw))
        return PodInfo(namespace, with_own(kin.template, own), kin)
