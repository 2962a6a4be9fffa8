"""Containers of a pod, with what they ask for."""

import msgspec

from shared.kube.api_objects.base import ApiStruct, Int32, ResourceList


class ContainerResourceClaim(ApiStruct):
    name: str
    request: str = ""


class ResourceRequirements(ApiStruct):
    requests: ResourceList | None = None
    limits: ResourceList | None = None
    claims: list[ContainerResourceClaim] | None = None


class ContainerPort(ApiStruct):
    container_port: Int32 = 0
    host_port: Int32 = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class ContainerRestartRule(ApiStruct):
    action: str = ""


class Container(ApiStruct):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements | None = None
    ports: list[ContainerPort] | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[ContainerRestartRule] | None = None


class ContainerStatus(ApiStruct):
    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None
