"""KubeSchedulerConfiguration: what a file means, and what is said about a wrong one, each with its line.

The texts are those of kube-scheduler 1.37, but for what it does not say or says with the names of Go's source files.
"""

from typing import Any

import pytest

from tollbar.scheduler.config import load
from tollbar.scheduler.config.document import ConfigError
from tollbar.scheduler.config.types import (
    ClientConnection,
    EnabledPlugin,
    LeaderElection,
    PluginSet,
    SchedulerConfiguration,
)

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
STARTS = "a file starts with apiVersion: kubescheduler.config.k8s.io/v1 and kind: KubeSchedulerConfiguration"
STRICT = "strict decoding error"
NOT_A_NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric"
    " character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is"
    " '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
NOT_A_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    " '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def cannot(found: str, field: str, kind: str) -> str:
    """The text about a value of a wrong type."""
    return f"json: cannot unmarshal {found} into Go struct field {field} of type {kind}"


def errors(text: str, *missing: str) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as caught:
        load.load(text, missing)
    return list(caught.value.errors)


def profile(text: str) -> str:
    """A file with one profile, whose fields begin in line 4."""
    below = "".join(f"  {line}\n" for line in text.splitlines())
    return f"{HEAD}profiles:\n- {below.lstrip()}"


def arguments(plugin: str, args: str) -> str:
    """A file with these arguments in line 6."""
    return f"{HEAD}profiles:\n- pluginConfig:\n  - name: {plugin}\n    args: {args}\n"


@pytest.mark.behaviour(29)
def test_the_defaults() -> None:
    found = load.default()

    assert (found.profiles[0].scheduler_name, found.profiles[0].percentage_of_nodes_to_score) == (
        "default-scheduler",
        None,
    )
    assert found == SchedulerConfiguration(
        parallelism=16,
        leader_election=LeaderElection(True, 15, 10, 2, "leases", "kube-scheduler", "kube-system"),
        client_connection=ClientConnection("", "", "application/vnd.kubernetes.protobuf", 50, 100),
        enable_profiling=True,
        enable_contention_profiling=True,
        percentage_of_nodes_to_score=0,
        pod_initial_backoff_seconds=1,
        pod_max_backoff_seconds=10,
        delay_cache_until_active=False,
        profiles=found.profiles,
    )


CPU_AND_MEMORY = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]


def test_the_default_arguments() -> None:
    assert load.default().profiles[0].args == {
        "DefaultPreemption": {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 100},
        "DynamicResources": {"filterTimeout": 10, "bindingTimeout": 600},
        "InterPodAffinity": {"hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": False},
        "NodeAffinity": {},
        "NodeResourcesBalancedAllocation": {"resources": CPU_AND_MEMORY},
        "NodeResourcesFit": {"scoringStrategy": {"type": "LeastAllocated", "resources": CPU_AND_MEMORY}},
        "PodTopologySpread": {"defaultingType": "System"},
        "VolumeBinding": {
            "bindTimeoutSeconds": 600,
            "shape": [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}],
        },
    }


@pytest.mark.behaviour(29)
def test_every_field() -> None:
    found = load.load(
        """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: 16.0
leaderElection: {leaderElect: false, leaseDuration: 1m30s, renewDeadline: 1.5s, retryPeriod: 250ms,
  resourceLock: endpoints, resourceName: a, resourceNamespace: b}
clientConnection: {kubeconfig: /c, acceptContentTypes: d, contentType: e, qps: 7.5, burst: 9}
enableProfiling: false
percentageOfNodesToScore: 30
podInitialBackoffSeconds: 3
podMaxBackoffSeconds: 4
delayCacheUntilActive: true
extenders: []
profiles:
- schedulerName: one
  percentageOfNodesToScore: 20
  plugins:
    score:
      enabled: [{name: Mine, weight: 5}]
      disabled: [{name: NodeAffinity}]
    placementScore: {}
  pluginConfig:
  - {name: Mine, args: {a: [1]}}
  - {name: NodeResourcesFit}
- schedulerName: two
"""
    )
    one, two = found.profiles

    assert (one.scheduler_name, one.percentage_of_nodes_to_score, one.plugins["score"], one.args["Mine"]) == (
        "one",
        20,
        PluginSet((EnabledPlugin("Mine", 5),), ("NodeAffinity",)),
        {"a": [1]},
    )
    assert one.args["NodeResourcesFit"] == two.args["NodeResourcesFit"]
    assert found == SchedulerConfiguration(
        parallelism=16,
        leader_election=LeaderElection(False, 90, 1.5, 0.25, "endpoints", "a", "b"),
        client_connection=ClientConnection("/c", "d", "e", 7.5, 9),
        enable_profiling=False,
        enable_contention_profiling=False,
        percentage_of_nodes_to_score=30,
        pod_initial_backoff_seconds=3,
        pod_max_backoff_seconds=4,
        delay_cache_until_active=True,
        profiles=(one, two),
    )


ARGUMENTS: dict[str, tuple[str, str, Any]] = {
    "a weight that is left out is 1": (
        "NodeResourcesFit",
        "{scoringStrategy: {type: MostAllocated, resources: [{name: cpu}, {name: memory, weight: 5}]}}",
        {
            "scoringStrategy": {
                "type": "MostAllocated",
                "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 5}],
            }
        },
    ),
    "a strategy without resources has cpu and memory": (
        "NodeResourcesFit",
        (
            "{apiVersion: kubescheduler.config.k8s.io/v1, kind: NodeResourcesFitArgs,"
            " scoringStrategy: {type: MostAllocated}}"
        ),
        {"scoringStrategy": {"type": "MostAllocated", "resources": CPU_AND_MEMORY}},
    ),
    "null is as if it were left out": (
        "DefaultPreemption",
        "{minCandidateNodesPercentage: 20, minCandidateNodesAbsolute: null}",
        {"minCandidateNodesPercentage": 20, "minCandidateNodesAbsolute": 100},
    ),
    "durations are seconds": (
        "DynamicResources",
        "{filterTimeout: 0s, exclusive: all}",
        {"filterTimeout": 0, "bindingTimeout": 600, "exclusive": "all"},
    ),
    "all fields of a constraint": (
        "PodTopologySpread",
        (
            "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule,"
            " minDomains: 3, nodeAffinityPolicy: Honor, nodeTaintsPolicy: Ignore, matchLabelKeys: [a]}]}"
        ),
        {
            "defaultingType": "List",
            "defaultConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "z",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "minDomains": 3,
                    "nodeAffinityPolicy": "Honor",
                    "nodeTaintsPolicy": "Ignore",
                    "matchLabelKeys": ["a"],
                }
            ],
        },
    ),
}


@pytest.mark.parametrize(("plugin", "args", "expected"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments(plugin: str, args: str, expected: Any) -> None:
    assert load.load(arguments(plugin, args)).profiles[0].args[plugin] == expected


def test_an_object_that_is_decoded_already() -> None:
    head = {"apiVersion": load.API_VERSION, "kind": load.KIND}

    assert load.load({**head, "parallelism": 4}).parallelism == 4
    with pytest.raises(ConfigError) as caught:
        load.load({**head, "profiles": [{"foo": 1}]})
    assert caught.value.errors == (("", 'strict decoding error: unknown field "profiles[0].foo"'),)


def test_json_is_yaml() -> None:
    text = '{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"KubeSchedulerConfiguration","parallelism":4}'

    assert load.load(text).parallelism == 4


WRONG_FILES: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "an empty file": ("", [("", f"Object 'Kind' is missing: {STARTS}")]),
    "a text": (
        "hello",
        [("", "couldn't get version/kind; the file must hold one KubeSchedulerConfiguration object")],
    ),
    "not YAML": ("a:\n- [", [("line 2", "not YAML: expected the node content, but found '<stream end>'")]),
    "no kind": (
        "apiVersion: kubescheduler.config.k8s.io/v1\n",
        [("", f"Object 'Kind' is missing: {STARTS}")],
    ),
    "no version": ("kind: KubeSchedulerConfiguration\n", [("", f"Object 'apiVersion' is missing: {STARTS}")]),
    "an older version": (
        "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\n",
        [
            (
                "",
                (
                    'no kind "KubeSchedulerConfiguration" is registered for version'
                    f' "kubescheduler.config.k8s.io/v1beta3": {STARTS}'
                ),
            )
        ],
    ),
    "a Policy": (
        "apiVersion: v1\nkind: Policy\n",
        [("", f'no kind "Policy" is registered for version "v1": Policy files are not supported, {STARTS}')],
    ),
    "unknown fields": (
        HEAD + "foo: 1\nleaderElection:\n  bar: 1\nprofiles:\n- plugins:\n    scores: {}\n    score:\n"
        "      enabled:\n      - {name: a, wieght: 1}\n",
        [
            ("line 3", f'{STRICT}: unknown field "foo"'),
            ("line 5", f'{STRICT}: unknown field "leaderElection.bar"'),
            ("line 8", f'{STRICT}: unknown field "profiles[0].plugins.scores"'),
            ("line 11", f'{STRICT}: unknown field "profiles[0].plugins.score.enabled[0].wieght"'),
        ],
    ),
    "names of fields are case-sensitive": (
        HEAD + "Parallelism: 1\n",
        [("line 3", f'{STRICT}: unknown field "Parallelism"')],
    ),
    "a field that is there twice": (
        HEAD + "parallelism: 3\nparallelism: 4\n",
        [("line 4", f'{STRICT}: key "parallelism" already set in map')],
    ),
    "wrong types": (
        HEAD + "parallelism: many\nenableProfiling: 1\nleaderElection: 3\nclientConnection: {qps: fast}\n"
        "podMaxBackoffSeconds: 1.5\npercentageOfNodesToScore: 3000000000\nprofiles:\n- schedulerName: 3\n- 1\n",
        [
            (
                "line 3",
                cannot("string", "KubeSchedulerConfiguration.parallelism", "int32"),
            ),
            (
                "line 4",
                cannot("number", "KubeSchedulerConfiguration.enableProfiling", "bool"),
            ),
            (
                "line 5",
                cannot("number", "KubeSchedulerConfiguration.leaderElection", "v1alpha1.LeaderElectionConfiguration"),
            ),
            (
                "line 6",
                cannot("string", "ClientConnectionConfiguration.clientConnection.qps", "float32"),
            ),
            (
                "line 7",
                cannot("number 1.5", "KubeSchedulerConfiguration.podMaxBackoffSeconds", "int64"),
            ),
            (
                "line 8",
                cannot("number 3000000000", "KubeSchedulerConfiguration.percentageOfNodesToScore", "int32"),
            ),
            (
                "line 10",
                cannot("number", "KubeSchedulerProfile.profiles.schedulerName", "string"),
            ),
            (
                "line 11",
                cannot("number", "KubeSchedulerConfiguration.profiles", "v1.KubeSchedulerProfile"),
            ),
        ],
    ),
    "a list that is none": (
        HEAD + "profiles: {}\n",
        [
            (
                "line 3",
                cannot("object", "KubeSchedulerConfiguration.profiles", "[]v1.KubeSchedulerProfile"),
            )
        ],
    ),
    "durations": (
        HEAD + "leaderElection:\n  leaseDuration: 15\n  renewDeadline: 15parsecs\n  retryPeriod: ''\n",
        [
            (
                "line 4",
                cannot("number", "LeaderElectionConfiguration.leaderElection.leaseDuration", "string"),
            ),
            ("line 5", 'time: unknown unit "parsecs" in duration "15parsecs"'),
            ("line 6", 'time: invalid duration ""'),
        ],
    ),
    "a weight that is too large": (
        profile("plugins:\n  score:\n    enabled:\n    - name: A\n      weight: 2147483648"),
        [
            (
                "line 8",
                cannot("number 2147483648", "Plugin.profiles.plugins.score.enabled.weight", "int32"),
            )
        ],
    ),
    "unknown fields of arguments": (
        arguments("NodeResourcesFit", "{foo: 1, scoringStrategy: {bar: 1}}"),
        [
            (
                "line 6",
                (
                    f"{STRICT}: decoding .profiles[0].pluginConfig[0]: {STRICT}: decoding args for plugin"
                    f' NodeResourcesFit: {STRICT}: unknown field "{field}"'
                ),
            )
            for field in ("foo", "scoringStrategy.bar")
        ],
    ),
    "wrong types of arguments": (
        arguments("DefaultPreemption", "{minCandidateNodesPercentage: '10'}"),
        [
            (
                "line 6",
                "decoding .profiles[0].pluginConfig[0]: decoding args for plugin DefaultPreemption: "
                + cannot("string", "DefaultPreemptionArgs.minCandidateNodesPercentage", "int32"),
            )
        ],
    ),
    "arguments that are no object": (
        arguments("NodeResourcesFit", "hello"),
        [
            (
                "line 6",
                (
                    "decoding .profiles[0].pluginConfig[0]: decoding args for plugin NodeResourcesFit: couldn't get"
                    " version/kind; must be an object"
                ),
            )
        ],
    ),
    "arguments of another plugin": (
        arguments("NodeResourcesFit", "{kind: NodeAffinityArgs}"),
        [
            (
                "line 6",
                (
                    "decoding .profiles[0].pluginConfig[0]: args for plugin NodeResourcesFit were not of type"
                    " NodeResourcesFitArgs.kubescheduler.config.k8s.io, got"
                    " NodeAffinityArgs.kubescheduler.config.k8s.io"
                ),
            )
        ],
    ),
    "arguments of another version": (
        arguments("NodeResourcesFit", "{apiVersion: kubescheduler.config.k8s.io/v1beta3}"),
        [
            (
                "line 6",
                (
                    "decoding .profiles[0].pluginConfig[0]: decoding args for plugin NodeResourcesFit: no kind"
                    ' "NodeResourcesFitArgs" is registered for version "kubescheduler.config.k8s.io/v1beta3"'
                ),
            )
        ],
    ),
    "numbers out of range": (
        HEAD + "parallelism: 0\npercentageOfNodesToScore: 101\npodInitialBackoffSeconds: 0\npodMaxBackoffSeconds: -1\n"
        "clientConnection:\n  burst: -5\n",
        [
            ("line 8", "clientConnection.burst: Invalid value: -5: must be non-negative"),
            ("line 3", "parallelism: Invalid value: 0: should be an integer value greater than zero"),
            ("line 4", "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]"),
            ("line 5", "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0"),
            (
                "line 6",
                "podMaxBackoffSeconds: Invalid value: -1: must be greater than or equal to PodInitialBackoffSeconds",
            ),
        ],
    ),
    "a back-off above the default maximum": (
        HEAD + "podInitialBackoffSeconds: 20\n",
        [("", "podMaxBackoffSeconds: Invalid value: 10: must be greater than or equal to PodInitialBackoffSeconds")],
    ),
    "leader election": (
        HEAD + "leaderElection: {leaseDuration: 5s, renewDeadline: 10s, retryPeriod: -2s, resourceLock: endpoints}\n",
        [
            ("line 3", 'leaderElection.retryPeriod: Invalid value: "-2s": must be greater than zero'),
            ("line 3", 'leaderElection.leaseDuration: Invalid value: "10s": must be greater than `RenewDeadline`'),
            (
                "line 3",
                'leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"',
            ),
        ],
    ),
    "profiles without a name": (
        HEAD + "profiles:\n- {}\n- percentageOfNodesToScore: 200\n",
        [
            ("line 4", "profiles[0].schedulerName: Required value"),
            ("line 5", "profiles[1].schedulerName: Required value"),
            ("line 5", "profiles[1].percentageOfNodesToScore: Invalid value: 200: not in valid range [0-100]"),
            ("line 5", 'profiles[1].schedulerName: Duplicate value: ""'),
        ],
    ),
    "two profiles with one name": (
        HEAD + "profiles:\n- schedulerName: a\n- schedulerName: b\n- schedulerName: a\n",
        [("line 6", 'profiles[2].schedulerName: Duplicate value: "a"')],
    ),
    "two queue sort plugins": (
        profile("plugins:\n  queueSort:\n    enabled:\n    - name: PrioritySort\n    - name: Mine"),
        [
            (
                "line 5",
                "profiles[0].plugins.queueSort.Enabled: Invalid value: 2: only one queue sort plugin can be enabled",
            )
        ],
    ),
    "profiles that sort differently": (
        HEAD + "profiles:\n- schedulerName: a\n- schedulerName: b\n  plugins:\n    queueSort: {enabled: [{name: M}]}\n",
        [
            (
                "line 7",
                (
                    'profiles[1].plugins.queueSort: Invalid value: {"Enabled": [{"Name": "M", "Weight": 0}],'
                    ' "Disabled": null}: must be the same for all profiles'
                ),
            )
        ],
    ),
    "profiles that sort with different arguments": (
        HEAD + "profiles:\n"
        "- {schedulerName: a, plugins: {queueSort: {enabled: [{name: M}]}}, pluginConfig: [{name: M, args: {a: 1}}]}\n"
        "- {schedulerName: b, plugins: {queueSort: {enabled: [{name: M}]}}, pluginConfig: [{name: M, args: {a: 2}}]}\n",
        [
            (
                "line 5",
                'profiles[1].pluginConfig.args: Invalid value: {"a": 2}: queueSort must be the same for all profiles',
            )
        ],
    ),
    "plugins that kube-scheduler has removed": (
        profile("plugins:\n  filter:\n    enabled:\n    - name: EBSLimits"),
        [
            (
                "line 7",
                (
                    'profiles[0].plugins.filter.enabled[0]: Invalid value: "EBSLimits": was invalid in version "v1"'
                    ' (KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")'
                ),
            )
        ],
    ),
    "plugins that are missing here": (
        profile("plugins:\n  filter:\n    enabled:\n    - name: Gone\npluginConfig:\n- name: Gone"),
        [
            (
                "line 7",
                (
                    'profiles[0].plugins.filter.enabled[0]: Invalid value: "Gone": this plugin of kube-scheduler is not'
                    " supported"
                ),
            ),
            (
                "line 9",
                'profiles[0].pluginConfig[0]: Invalid value: "Gone": this plugin of kube-scheduler is not supported',
            ),
        ],
    ),
    "plugins of pod groups": (
        profile("plugins:\n  placementScore:\n    enabled:\n    - name: Mine"),
        [("line 7", "profiles[0].plugins.placementScore.enabled[0]: Forbidden: pod groups are not supported")],
    ),
    "two configurations of a plugin": (
        profile("pluginConfig:\n- name: Mine\n- name: Mine"),
        [("line 6", 'profiles[0].pluginConfig[1]: Duplicate value: "Mine"')],
    ),
    "arguments of another's plugin that are no object": (
        arguments("Mine", "hello"),
        [("line 6", 'profiles[0].pluginConfig[0].args: Invalid value: "hello": must be an object')],
    ),
    "extenders": (
        HEAD + "extenders:\n- urlPrefix: http://x\n",
        [("line 3", "extenders: Forbidden: scheduler extenders are not supported")],
    ),
}


@pytest.mark.behaviour(30, case="a Policy")
@pytest.mark.parametrize(("text", "expected"), WRONG_FILES.values(), ids=WRONG_FILES)
def test_a_wrong_file(text: str, expected: list[tuple[str, str]]) -> None:
    assert errors(text, "Gone") == expected


WRONG_ARGUMENTS: dict[str, tuple[str, str, list[str]]] = {
    "preemption, out of range": (
        "DefaultPreemption",
        "{minCandidateNodesPercentage: 101, minCandidateNodesAbsolute: -1}",
        [
            "minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]",
            "minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)",
        ],
    ),
    "preemption without candidates": (
        "DefaultPreemption",
        "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}",
        [
            (
                "minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as"
                " minCandidateNodesAbsolute"
            ),
            (
                "minCandidateNodesAbsolute: Invalid value: 0: cannot be zero at the same time as"
                " minCandidateNodesPercentage"
            ),
        ],
    ),
    "DRA": (
        "DynamicResources",
        "{filterTimeout: -1s, bindingTimeout: 10ms}",
        [
            'filterTimeout: Invalid value: "-1s": must be zero or positive',
            'bindingTimeout: Invalid value: "10ms": must be at least 1 second',
        ],
    ),
    "pod affinity": (
        "InterPodAffinity",
        "{hardPodAffinityWeight: 101}",
        ["hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]"],
    ),
    "balanced allocation": (
        "NodeResourcesBalancedAllocation",
        "{resources: [{name: cpu, weight: 2}, {name: cpu}]}",
        ["resources[0].weight: Invalid value: 2: must be 1", 'resources[1].name: Duplicate value: "cpu"'],
    ),
    "strategy": (
        "NodeResourcesFit",
        "{scoringStrategy: {type: Best, resources: [{name: cpu, weight: 101}]}}",
        [
            (
                'scoringStrategy.type: Unsupported value: "Best": supported values: "LeastAllocated", "MostAllocated",'
                ' "RequestedToCapacityRatio"'
            ),
            (
                "scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of cpu not in valid range"
                " (0, 100]"
            ),
        ],
    ),
    "a ratio without a shape": (
        "NodeResourcesFit",
        "{scoringStrategy: {type: RequestedToCapacityRatio}}",
        [
            (
                "scoringStrategy.requestedToCapacityRatio: Required value: must be specified when type is"
                " RequestedToCapacityRatio"
            )
        ],
    ),
    "a ratio with an empty shape": (
        "NodeResourcesFit",
        "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {}}}",
        ["scoringStrategy.requestedToCapacityRatio.shape: Required value: at least one point must be specified"],
    ),
    "a wrong shape": (
        "NodeResourcesFit",
        (
            "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape:"
            " [{utilization: 50, score: 11}, {utilization: 20, score: -1}, {utilization: 101, score: 3}]}}}"
        ),
        [
            (
                "scoringStrategy.requestedToCapacityRatio.shape[1].utilization: Invalid value: 20: values must be"
                " sorted in increasing order"
            ),
            "scoringStrategy.requestedToCapacityRatio.shape[0].score: Invalid value: 11: not in valid range [0, 10]",
            "scoringStrategy.requestedToCapacityRatio.shape[1].score: Invalid value: -1: not in valid range [0, 10]",
            (
                "scoringStrategy.requestedToCapacityRatio.shape[2].utilization: Invalid value: 101: not in valid range"
                " [0, 100]"
            ),
        ],
    ),
    "a shape that is not asked for": (
        "NodeResourcesFit",
        "{scoringStrategy: {type: LeastAllocated, requestedToCapacityRatio: {shape: []}}}",
        ["scoringStrategy.requestedToCapacityRatio: Forbidden: must be nil when type is not RequestedToCapacityRatio"],
    ),
    "ignored resources": (
        "NodeResourcesFit",
        "{ignoredResources: ['a b', example.com/foo], ignoredResourceGroups: [a/b, ok.com]}",
        [
            f'ignoredResources[0]: Invalid value: "a b": {NOT_A_NAME}',
            "ignoredResourceGroups[0]: Invalid value: \"a/b\": resource group name can't contain '/'",
        ],
    ),
    "system defaults and a list": (
        "PodTopologySpread",
        "{defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}",
        ['defaultingType: Invalid value: "System": when .defaultConstraints are not empty'],
    ),
    "unknown defaulting": (
        "PodTopologySpread",
        "{defaultingType: Foo}",
        ['defaultingType: Unsupported value: "Foo": supported values: "System", "List"'],
    ),
    "constraints": (
        "PodTopologySpread",
        (
            "{defaultingType: List, defaultConstraints: [{maxSkew: 0}, {maxSkew: 1, topologyKey: 'a b',"
            " whenUnsatisfiable: Foo, labelSelector: {}}, {maxSkew: 1, topologyKey: z, whenUnsatisfiable:"
            " DoNotSchedule}, {maxSkew: 2, topologyKey: z, whenUnsatisfiable: DoNotSchedule}]}"
        ),
        [
            "defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)",
            "defaultConstraints[0].topologyKey: Required value: can not be empty",
            "defaultConstraints[0].whenUnsatisfiable: Required value: can not be empty",
            f'defaultConstraints[1].topologyKey: Invalid value: "a b": {NOT_A_NAME}',
            (
                'defaultConstraints[1].whenUnsatisfiable: Unsupported value: "Foo": supported values: "DoNotSchedule",'
                ' "ScheduleAnyway"'
            ),
            (
                "defaultConstraints[1].labelSelector: Forbidden: constraint must not define a selector, as they deduced"
                " for each pod"
            ),
            'defaultConstraints[3]: Duplicate value: "{z, DoNotSchedule}"',
        ],
    ),
    "volumes": (
        "VolumeBinding",
        "{bindTimeoutSeconds: -1, shape: [{utilization: 0, score: 11}]}",
        [
            "bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value",
            "shape[0].score: Invalid value: 11: not in valid range [0, 10]",
        ],
    ),
    "required node affinity": (
        "NodeAffinity",
        (
            "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{},"
            " {matchExpressions: [{key: 'a b', operator: In, values: ['x']}, {key: a, operator: Foo}, {key: a,"
            " operator: In}, {key: a, operator: Exists, values: [x]}, {key: a, operator: Gt, values: ['1', '2']},"
            " {key: a, operator: Lt, values: [x]}, {key: a, operator: NotIn, values: ['b c']}], matchFields:"
            " [{key: metadata.name, operator: In}, {key: metadata.name, operator: Exists}]}]}}}"
        ),
        [
            f'{{}}.matchExpressions[0].key: Invalid value: "a b": {NOT_A_NAME}',
            (
                '{}.matchExpressions[1].operator: Unsupported value: "Foo": supported values: "In", "NotIn", "Exists",'
                ' "DoesNotExist", "Gt", "Lt"'
            ),
            (
                "{}.matchExpressions[2].values: Invalid value: null: for 'in', 'notin' operators, values set can't be"
                " empty"
            ),
            (
                '{}.matchExpressions[3].values: Invalid value: ["x"]: values set must be empty for exists and does not'
                " exist"
            ),
            (
                "{}.matchExpressions[4].values: Invalid value: [\"1\", \"2\"]: for 'Gt', 'Lt' operators, exactly one"
                " value is required"
            ),
            (
                "{}.matchExpressions[5].values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an"
                " integer"
            ),
            f'{{}}.matchExpressions[6].values[0][a]: Invalid value: "b c": {NOT_A_VALUE}',
            "{}.matchFields[0].values: Invalid value: null: must have one element",
            '{}.matchFields[1].operator: Unsupported value: "Exists": supported values: "In", "NotIn"',
        ],
    ),
    "preferred node affinity": (
        "NodeAffinity",
        (
            "{addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 0, preference:"
            " {matchExpressions: [{key: a, operator: Foo}]}}, {weight: 5, preference: {matchFields: [{key: a, operator:"
            " Gt}]}}]}}"
        ),
        [
            (
                "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[1].matchFields[0].operator:"
                ' Unsupported value: "Gt": supported values: "In", "NotIn"'
            )
        ],
    ),
}


@pytest.mark.parametrize(("plugin", "args", "expected"), WRONG_ARGUMENTS.values(), ids=WRONG_ARGUMENTS)
def test_wrong_arguments(plugin: str, args: str, expected: list[str]) -> None:
    term = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1]"

    assert errors(arguments(plugin, args)) == [
        ("line 6", f"profiles[0].pluginConfig[0].args.{text.replace('{}', term, 1) if text.startswith('{}') else text}")
        for text in expected
    ]


def test_the_message_has_one_line_for_each_error() -> None:
    with pytest.raises(ConfigError) as caught:
        load.load(HEAD + "foo: 1\nbar: 2\n")

    assert str(caught.value) == (
        'line 3: strict decoding error: unknown field "foo"\nline 4: strict decoding error: unknown field "bar"'
    )
