"""What cannot work among the options of `berth run`, each with its option."""

import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager

from daemon.endpoints.tls import CIPHER_SUITES, TLS_VERSIONS
from shared.errors import ConfigurationError
from shared.feature_gates import DRA_WORKLOAD_RESOURCE_CLAIMS, GANG_SCHEDULING, parse_feature_gates
from shared.kube.foreign_groups import FOREIGN_GROUPS
from shared.limits import MAX_IN_FLIGHT_MAX, OPTION_SECONDS_MAX, PORT_MAX, PROCESSES_MAX
from shared.runtime_options import EndpointOptions, RuntimeOptions
from shared.telemetry.log import LEVELS


def option_problems(options: RuntimeOptions) -> list[str]:
    """Empty: all of them can."""
    found = []
    if options.server and not options.server.startswith(("http://", "https://")):
        found.append(f"--server {options.server}: must start with http:// or https://")
    for name, count, most in (
        ("--workers", options.workers, PROCESSES_MAX),
        ("--binders", options.binders, PROCESSES_MAX),
        ("--max-in-flight", options.max_in_flight, MAX_IN_FLIGHT_MAX),
    ):
        # With workers elsewhere there need be none here.
        least = 0 if name == "--workers" and options.workers_address else 1
        if not least <= count <= most:
            found.append(f"{name} {count}: must lie in {least}..{most}")
    if options.compatible_sampling and (options.workers != 1 or options.workers_address):
        found.append(
            "--compatible-sampling: where a search begins depends on the one before, so there must "
            "be one worker; leave --workers at 1 and --workers-address away"
        )
    if not 0 <= options.seed < 2**63:
        found.append(f"--seed {options.seed}: must lie in 0..2^63-1")
    for name, seconds in (
        ("--assume-ttl-s", options.assume_ttl_s),
        ("--gang-reservation-s", options.gang_reservation_s),
        ("--drain-s", options.drain_s),
    ):
        if not 0 <= seconds <= OPTION_SECONDS_MAX:
            found.append(f"{name} {seconds:g}: must lie in 0..{OPTION_SECONDS_MAX}")
    found += _endpoint_problems(options.endpoints)
    files = (options.workers_key_file, options.workers_allowed_file)
    if any((options.workers_address, *files)) and not all((options.workers_address, *files)):
        found.append(
            "--workers-address, --workers-key-file and --workers-allowed-file: give all of them;"
            " workers of other hosts are let in with keys only (berth keys makes them)"
        )
    if options.pod_groups not in ("", *FOREIGN_GROUPS):
        told = f"must be one of {', '.join(FOREIGN_GROUPS)}"
        found.append(f"--pod-groups {options.pod_groups}: {told}")
    elif options.pod_groups or options.gang_reservation_s:
        gates = parse_feature_gates(options.feature_gates)
        if options.pod_groups and gates[DRA_WORKLOAD_RESOURCE_CLAIMS]:
            told = f"leave {DRA_WORKLOAD_RESOURCE_CLAIMS} off: these groups have no claims"
            found.append(f"--pod-groups {options.pod_groups}: {told}")
        if not gates[GANG_SCHEDULING]:
            option = "--pod-groups" if options.pod_groups else "--gang-reservation-s"
            told = "needs --feature-gates=GenericWorkload=true,GangScheduling=true"
            found.append(
                f"{option} {options.pod_groups or f'{options.gang_reservation_s:g}'}: {told}"
            )
    if options.log_level not in LEVELS:
        found.append(f"--log-level {options.log_level}: must be one of {', '.join(LEVELS)}")
    return found


def _endpoint_problems(options: EndpointOptions) -> list[str]:
    if not options.secure_port:
        return []
    found = []
    if not 0 < options.secure_port <= PORT_MAX:
        found.append(f"--secure-port {options.secure_port}: must lie in 0..{PORT_MAX}")
    if bool(options.tls_cert_file) != bool(options.tls_private_key_file):
        found.append("--tls-cert-file and --tls-private-key-file: give both or none")
    if options.tls_min_version not in TLS_VERSIONS:
        told = ", ".join(filter(None, TLS_VERSIONS))
        found.append(f"--tls-min-version {options.tls_min_version}: must be one of {told}")
    found += [
        f"--tls-cipher-suites {name}: must be one of {', '.join(sorted(CIPHER_SUITES))}"
        for name in options.tls_cipher_suites
        if name not in CIPHER_SUITES
    ]
    found += [
        f"--authorization-always-allow-paths {path}: * may stand at the end alone"
        for path in options.authorization_always_allow_paths
        if "*" in path[:-1]
    ]
    try:
        ipaddress.ip_address(options.bind_address)
    except ValueError:
        found.append(f"--bind-address {options.bind_address}: must be an IP address")
    return found


@contextmanager
def blamed(option: str) -> Iterator[None]:
    """Around what is done with the file or folder of an option, where that cannot be."""
    try:
        yield
    except (OSError, UnicodeDecodeError) as error:  # ssl.SSLError is the first.
        raise ConfigurationError("command line", [f"{option}: {error}"]) from error
