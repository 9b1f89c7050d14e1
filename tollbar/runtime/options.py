"""The flags of the process commands: each replaces one field of the configuration file.

They are named as in kube-controller-manager and controller-runtime.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import click

from tollbar.runtime.config import ConfigError

C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class Flag:
    """`field` is the camelCase path in the configuration; `declaration` is click's: names, then the parameter's."""

    field: str
    declaration: tuple[str, ...]
    help: str
    type: "click.ParamType[Any]" = click.STRING
    metavar: str | None = None
    envvar: str | None = None
    """An environment variable that is used when the flag is not given."""

    def option(self) -> click.Option:
        # A switch that is not given must be None: False would override the file.
        return click.Option(
            [*self.declaration],
            type=self.type,
            metavar=self.metavar,
            help=self.help,
            default=None,
            envvar=self.envvar,
            show_envvar=True,
        )

    def given(self, values: dict[str, Any]) -> Any:
        return values[self.option().name or ""]


COMMON: Final = (
    Flag(
        "systemNamespace",
        ("--system-namespace",),
        "Namespace in which Tollbar runs: its Lease is there, and Pods in it are left alone.",
        metavar="NAMESPACE",
        envvar="POD_NAMESPACE",
    ),
    Flag(
        "celEngine",
        ("--cel-engine",),
        "Which engine evaluates expressions.  compiled: makes a Python function of each.  closures: slower, and"
        " generates no code.",
        click.Choice(["compiled", "closures"]),
    ),
    Flag(
        "health.bindAddress",
        ("--health-probe-bind-address",),
        "Address of /healthz and /readyz, as HOST:PORT.",
        metavar="ADDRESS",
    ),
    Flag("metrics.bindAddress", ("--metrics-bind-address",), "Address of /metrics, as HOST:PORT.", metavar="ADDRESS"),
    Flag(
        "metrics.secure",
        ("--metrics-secure/--no-metrics-secure",),
        "Whether /metrics is served over TLS, and only to users who may get it, which the API server is asked.",
        click.BOOL,
    ),
    Flag("log.verbosity", ("-v", "--v", "verbosity"), "Verbosity of the log; 4 and more is debug.", click.INT),
    Flag(
        "log.format",
        ("--log-format",),
        "How the lines of the log are written: as klog does, or as JSON.",
        click.Choice(["text", "json"]),
    ),
)
LIMITS: Final = (
    Flag(
        "clientConnection.qps",
        ("--kube-api-qps",),
        "How many calls a second to the API server; 0 for no limit.",
        click.FLOAT,
    ),
    Flag("clientConnection.burst", ("--kube-api-burst",), "How many calls at once above that rate.", click.INT),
)
ELECTING: Final = (
    Flag(
        "leaderElection.enabled",
        ("--leader-elect/--no-leader-elect",),
        "Whether to hold a Lease while working, as several replicas need.",
        click.BOOL,
    ),
)
GATES: Final = (
    Flag(
        "gates",
        ("--gates",),
        "Gate classes that run beside Tollbar's own gate, separated by commas; `tollbar gates` lists them.",
        metavar="NAMES",
    ),
)
SERVING: Final = (
    *GATES,
    Flag(
        "leaderElection.enabled",
        ("--leader-elect/--no-leader-elect",),
        "Whether the controllers run with leader election: then Pods are gated only while one of them renews the"
        " Lease.",
        click.BOOL,
    ),
    Flag(
        "admission",
        ("--admission",),
        "When a Pod is gated.  Auto: when a rule cannot be decided yet.  Gate: always, if it asks for devices or a rule"
        " is about Pods alone.  Never: not at all, and all tolerations come late.",
        click.Choice(["Auto", "Gate", "Never"]),
    ),
    Flag(
        "webhook.certFile",
        ("--tls-cert-file",),
        "Serving certificate, PEM; read again when it changes.  Without it the webhook makes its own.",
        click.Path(),
    ),
    Flag("webhook.keyFile", ("--tls-private-key-file",), "Its private key, PEM.", click.Path()),
    Flag(
        "webhook.clientCAFile",
        ("--client-ca-file",),
        "Serve only clients with a certificate that a CA of this PEM file has signed; read again when it changes.",
        click.Path(),
    ),
    Flag("webhook.port", ("--port",), "Port of the admission server.", click.INT),
)
LEADING: Final = (
    *GATES,
    Flag(
        "claims",
        ("--claims",),
        "Complement: reserve claims for workloads, beside kube-controller-manager's ResourceClaim controller.  Replace:"
        " also do the work of that controller, which must be off.  Disabled: leave claims alone.",
        click.Choice(["Complement", "Replace", "Disabled"]),
    ),
    Flag(
        "onUnjustifiedToleration",
        ("--on-unjustified-toleration",),
        "What to do about a Pod that runs with other claims than those by which it got its tolerations.  Report: write"
        " an Event, a log line and a metric.  Evict: also evict it.",
        click.Choice(["Report", "Evict"]),
    ),
    Flag(
        "certificates.managed",
        ("--manage-certificates/--no-manage-certificates",),
        "Whether to renew the authority of the webhook's certificates, and write it to the webhook configurations.",
        click.BOOL,
    ),
    *ELECTING,
    *LIMITS,
)


def command(
    name: str,
    run: Callable[[C, str | None], int],
    *,
    load: Callable[[str | None, Mapping[str, object]], C],
    help: str,  # noqa: A002
    flags: Sequence[Flag],
) -> click.Command:
    """A command that loads the configuration and runs the process; it exits 2 when the configuration is wrong.

    `load` makes the configuration of the path of a file, if one is given, and of the flags by field; it raises
    ConfigError.  `run` gets it and the path of a kubeconfig (None: as `Client.connect` finds it), and returns the exit
    code.
    """

    def callback(kubeconfig: str | None, config: str | None, **values: Any) -> None:
        try:
            configuration = load(config, {flag.field: flag.given(values) for flag in flags})
        except ConfigError as error:
            raise click.UsageError(str(error)) from None
        click.get_current_context().exit(run(configuration, kubeconfig))

    return click.Command(
        name,
        callback=callback,
        help=help,
        context_settings={"help_option_names": ["-h", "--help"]},
        params=[
            click.Option(
                ["--kubeconfig"],
                type=click.Path(),
                help="Which cluster.  Default: $KUBECONFIG, the service account of the Pod, ~/.kube/config.",
            ),
            click.Option(["--config"], type=click.Path(), help="Configuration file."),
            *(flag.option() for flag in flags),
        ],
    )
