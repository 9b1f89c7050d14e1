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
        "Namespace of this process: its Lease is there, and Pods in it are left alone.",
        metavar="NAMESPACE",
        envvar="POD_NAMESPACE",
    ),
    Flag(
        "celEngine",
        ("--cel-engine",),
        "What evaluates expressions.  compiled: a Python function for each.  closures: slower, no generated code.",
        click.Choice(["compiled", "closures"]),
    ),
    Flag("health.bindAddress", ("--health-probe-bind-address",), "Where /healthz and /readyz are.", metavar="ADDRESS"),
    Flag("metrics.bindAddress", ("--metrics-bind-address",), "Where /metrics is.", metavar="ADDRESS"),
    Flag(
        "metrics.secure",
        ("--metrics-secure/--no-metrics-secure",),
        "Whether /metrics is served over TLS, and only to those whom the API server lets get it.",
        click.BOOL,
    ),
    Flag("log.verbosity", ("-v", "--v", "verbosity"), "Verbosity of the log; 4 and more is debug.", click.INT),
    Flag("log.format", ("--log-format",), "Shape of the log lines.", click.Choice(["text", "json"])),
)
LIMITS: Final = (
    Flag("clientConnection.qps", ("--kube-api-qps",), "Calls a second to the API server; 0 for no limit.", click.FLOAT),
    Flag("clientConnection.burst", ("--kube-api-burst",), "Calls at once above that rate.", click.INT),
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
        "Gate classes that run beside the toleration gate: names of entry points of the group tollbar.gates, by comma.",
        metavar="NAMES",
    ),
)
SERVING: Final = (
    *GATES,
    Flag(
        "leaderElection.enabled",
        ("--leader-elect/--no-leader-elect",),
        "Whether the controllers hold a Lease: then Pods are gated only while one of them renews it.",
        click.BOOL,
    ),
    Flag(
        "admission",
        ("--admission",),
        "Auto: decide at admission what can be decided, gate the rest.  Gate: gate every Pod with a package.  Never: no"
        " gates.",
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
        "Complement: reservations of workloads, beside kube-controller-manager's ResourceClaim controller.  Replace: in"
        " its place.  Disabled: neither.",
        click.Choice(["Complement", "Replace", "Disabled"]),
    ),
    Flag(
        "onUnjustifiedToleration",
        ("--on-unjustified-toleration",),
        "A Pod runs with tolerations that it got by other claims than it runs with.  Report: tell.  Evict: evict it,"
        " too.",
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
            click.Option(["--kubeconfig"], type=click.Path(), help="Kubeconfig; without one, as kubectl and Pods do."),
            click.Option(["--config"], type=click.Path(), help="Configuration file."),
            *(flag.option() for flag in flags),
        ],
    )
