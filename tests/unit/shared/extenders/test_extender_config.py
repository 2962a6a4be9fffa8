"""`extenders:` of a configuration file; cases of validateExtenders in validation_test.go."""

import base64

import pytest
import yaml

from shared.config import SchedulerConfiguration, parse_configuration
from shared.errors import ConfigurationError
from shared.extenders.extender_config import ExtenderConfig, ExtenderTls
from shared.extenders.extender_fields import shown_extender
from shared.plugin_names import NODE_RESOURCES_FIT
from shared.plugins.in_tree import InTreeRegistry

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def parsed(extenders: str) -> SchedulerConfiguration:
    return parse_configuration(f"{HEAD}extenders: {extenders}\n", "file")


def test_defaults_are_those_of_kube_scheduler() -> None:
    (extender,) = parsed("[{urlPrefix: 'http://h:1/x/'}]").extenders
    assert (extender.url_prefix, extender.http_timeout_s) == ("http://h:1/x/", 5.0)
    assert extender == ExtenderConfig(url_prefix="http://h:1/x/")


def test_ignorable_extenders_are_called_last() -> None:
    found = parsed("[{urlPrefix: 'http://a', ignorable: true}, {urlPrefix: 'http://b'}]").extenders
    assert [each.url_prefix for each in found] == ["http://b", "http://a"]


def test_ignored_resources_are_no_business_of_node_resources_fit() -> None:
    managed = "managedResources: [{name: x.io/a, ignoredByScheduler: true}, {name: x.io/b}]"
    config = parsed(f"[{{urlPrefix: 'http://a', {managed}}}]")
    args = config.profiles[0].plugin_config[NODE_RESOURCES_FIT]
    assert args["ignoredResources"] == ["x.io/a"]
    own = (
        "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [x.io/c]}}]}]"
    )
    config = parsed(f"[{{urlPrefix: 'http://a', {managed}}}]\n{own}")
    args = config.profiles[0].plugin_config[NODE_RESOURCES_FIT]
    assert args["ignoredResources"] == ["x.io/a"], "the extenders' word takes precedence"
    assert config.extenders[0].managed_resources == {"x.io/a", "x.io/b"}


def test_resources_may_be_ignored_where_nobody_looks_at_them() -> None:
    managed = "managedResources: [{name: x.io/a, ignoredByScheduler: true}]"
    without = "profiles: [{plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}}]"
    (profile,) = parsed(f"[{{urlPrefix: 'http://a', {managed}}}]\n{without}").profiles
    filters = InTreeRegistry(entry_points=()).build(profile).framework.filters
    assert NODE_RESOURCES_FIT not in [plugin.NAME for plugin in filters]


@pytest.mark.parametrize(
    ("extender", "told"),
    [
        ("{}", "must be like http"),
        ("{urlPrefix: 'ftp://h'}", "must be like http"),
        ("{urlPrefix: 'http://h:99999'}", "must be like http"),
        ("{urlPrefix: 'http://h', prioritizeVerb: p}", "weight"),
        ("{urlPrefix: 'http://h', prioritizeVerb: p, weight: -1}", "weight"),
        ("{urlPrefix: 'http://h', filterVerb: 'a b'}", "filterVerb"),
        ("{urlPrefix: 'http://h', httpTimeout: soon}", "httpTimeout"),
        ("{urlPrefix: 'http://h', managedResources: [{name: cpu}]}", "extended resource"),
        ("{urlPrefix: 'http://h', managedResources: [{name: kubernetes.io/x}]}", "extended"),
        ("{urlPrefix: 'http://h', managedResources: [{name: mykubernetes.io/x}]}", "extended"),
        (
            "{urlPrefix: 'http://h', managedResources: [{name: x.io/a}, {name: x.io/a}]}",
            "managed by an extender already",
        ),
        ("{urlPrefix: 'https://h', tlsConfig: {certFile: c}}", "together"),
        ("{urlPrefix: 'https://h', tlsConfig: {caData: '%'}}", "base64"),
        ("{urlPrefix: 'https://h', tlsConfig: {caFile: c, insecure: true}}", "exclude each other"),
        ("{urlPrefix: 'http://h', httpTimeout: -1s}", "longer than zero"),
        ("{urlPrefix: 'http://h', filterverb: x}", "unknown field"),
    ],
)
def test_what_cannot_work_is_named_with_its_place(extender: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told) as raised:
        parsed(f"[{extender}]")
    assert "extenders[0]" in str(raised.value)


def test_only_one_extender_binds() -> None:
    with pytest.raises(ConfigurationError, match="only one extender can implement bind"):
        parsed("[{urlPrefix: 'http://a', bindVerb: b}, {urlPrefix: 'http://b', bindVerb: b}]")


def test_what_is_shown_means_the_same_and_shows_no_key() -> None:
    data = base64.b64encode(b"pem").decode()
    text = (
        "[{urlPrefix: 'https://h', filterVerb: f, prioritizeVerb: p, weight: 2, httpTimeout: 1500ms,"
        " nodeCacheCapable: true, ignorable: true, enableHTTPS: true,"
        " managedResources: [{name: x.io/a, ignoredByScheduler: true}],"
        f" tlsConfig: {{serverName: s, caData: {data}}}}}]"
    )
    before = parsed(text).extenders
    shown = yaml.safe_dump([shown_extender(each) for each in before], default_flow_style=True)
    assert parsed(shown.replace("\n", " ")).extenders == before
    assert before[0].tls_config == ExtenderTls(server_name="s", ca_data=b"pem")
    secret = parsed(
        f"[{{urlPrefix: 'https://h', tlsConfig: {{certData: {data}, keyData: {data}}}}}]"
    )
    assert shown_extender(secret.extenders[0])["tlsConfig"]["keyData"] == "(not shown)"
