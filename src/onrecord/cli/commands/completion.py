"""What the shell completes: commands and options by themselves, and what is in the store: runs and agents.

Pressing Tab must never fail, wait long or make a store; where nothing can be read, nothing is offered. What is offered
ends up on somebody's command line, so only names that no shell takes for anything else are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from reenact.cli.settings import Settings, shared_options

if TYPE_CHECKING:  # loaded when something is completed
    from click.shell_completion import CompletionItem

MOST_RUNS = 50
RUNS_LOOKED_AT = 200
SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_REENACT_COMPLETE"
_HARMLESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@/+-]{0,127}\Z")


def complete_run(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Runs, newest first, each with its agent."""
    from click.shell_completion import CompletionItem

    if incomplete.startswith("@"):
        return [CompletionItem("@last", help="the newest run"), CompletionItem("@last~1", help="the one before it")]
    return [CompletionItem(run, help=about) for run, about in _from_store(context, _runs, incomplete)]


def complete_run_or_file(context: click.Context, option: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    # The shell completes files where no run begins so. In bash this has to be said first.
    return [CompletionItem(incomplete, type="file"), *complete_run(context, option, incomplete)]


def complete_agent(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in _from_store(context, _agents, incomplete)]


def _from_store(context: click.Context, ask: Any, incomplete: str) -> Any:
    from reenact.cli.stores import reading, store_exists

    settings = context.find_object(Settings) or Settings()
    try:
        if not store_exists(settings):
            return []
        with reading(settings) as store:
            return ask(store, settings.namespace, incomplete)
    except Exception:  # whatever it is, the next command tells; here it would stand in the middle of a line
        return []


def _runs(store: Any, namespace: str, incomplete: str) -> list[tuple[str, str]]:
    from reenact.reports.summaries import agent_of

    if incomplete:
        found = store.find_runs(namespace, incomplete, MOST_RUNS)
    else:
        found = [row.header.run for row in store.list_runs(namespace, limit=MOST_RUNS)]
    return [(run, _shown(agent_of(store, namespace, run))) for run in found if _HARMLESS.match(run)]


def _agents(store: Any, namespace: str, incomplete: str) -> list[str]:
    from reenact.reports.summaries import agent_of

    rows = store.list_runs(namespace, limit=RUNS_LOOKED_AT)
    found = dict.fromkeys(agent_of(store, namespace, row.header.run) or "" for row in rows)
    return [name for name in found if _HARMLESS.match(name) and name.startswith(incomplete)]


def _shown(agent: str | None) -> str:
    return agent if agent is not None and _HARMLESS.match(agent) else ""


@click.command()
@shared_options
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_obj
def completion(settings: Settings, shell: str) -> None:
    """Write what a shell needs to complete commands, options, run ids, agents and statuses.

    \b
    eval "$(reenact completion bash)"                     in ~/.bashrc
    eval "$(reenact completion zsh)"                      in ~/.zshrc
    reenact completion fish | source                      in ~/.config/fish/config.fish
    """
    from click.shell_completion import ShellComplete, get_completion_class

    from reenact.cli.main import cli
    from reenact.cli.output import say, say_json

    found = get_completion_class(shell)
    assert found is not None
    # The class's own `source` asks the shell that is installed for its version; whoever writes a file may have none.
    script = ShellComplete.source(found(cli, {}, "reenact", VARIABLE))
    if settings.json:
        say_json({"shell": shell, "script": script})
    else:
        say(script)
