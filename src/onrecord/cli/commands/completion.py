"""Complete commands, options, run ids and agents in a shell.

Pressing Tab must not fail, wait long or create a store: a store that cannot be read offers nothing. An offered name
becomes part of a command line, so only names without a special meaning to any shell are offered.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from onrecord.cli.settings import Settings, shared_options

if TYPE_CHECKING:  # loaded when something is completed
    from click.shell_completion import CompletionItem

MOST_RUNS = 50
RUNS_LOOKED_AT = 200
SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_ONRECORD_COMPLETE"
_HARMLESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@/+-]{0,127}\Z")


def complete_run(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the runs, newest first, each with its agent."""
    from click.shell_completion import CompletionItem

    if incomplete.startswith("@"):
        return [CompletionItem("@last", help="the newest run"), CompletionItem("@last~1", help="the one before it")]
    return [CompletionItem(run, help=about) for run, about in _from_store(context, _runs, incomplete)]


def complete_run_or_file(context: click.Context, option: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    # The shell completes files where no run matches; bash needs the file item first.
    return [CompletionItem(incomplete, type="file"), *complete_run(context, option, incomplete)]


def complete_agent(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in _from_store(context, _agents, incomplete)]


def _from_store(context: click.Context, ask: Any, incomplete: str) -> Any:
    from onrecord.cli.stores import reading, store_exists

    settings = context.find_object(Settings) or Settings()
    try:
        if not store_exists(settings):
            return []
        with reading(settings) as store:
            return ask(store, settings.namespace, incomplete)
    except Exception:  # the next command reports it; here it would be printed into the line that is typed
        return []


def _runs(store: Any, namespace: str, incomplete: str) -> list[tuple[str, str]]:
    from onrecord.reports.summaries import agent_of

    if incomplete:
        found = store.find_runs(namespace, incomplete, MOST_RUNS)
    else:
        found = [row.header.run for row in store.list_runs(namespace, limit=MOST_RUNS)]
    return [(run, _shown(agent_of(store, namespace, run))) for run in found if _HARMLESS.match(run)]


def _agents(store: Any, namespace: str, incomplete: str) -> list[str]:
    from onrecord.reports.summaries import agent_of

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
    """Print the script that lets a shell complete commands, options, run ids, agents and statuses.

    \b
    eval "$(onrecord completion bash)"                     in ~/.bashrc
    eval "$(onrecord completion zsh)"                      in ~/.zshrc
    onrecord completion fish | source                      in ~/.config/fish/config.fish
    """
    from click.shell_completion import ShellComplete, get_completion_class

    from onrecord.cli.main import cli
    from onrecord.cli.render.output import say, say_json

    found = get_completion_class(shell)
    assert found is not None
    # The class's own `source` runs the shell to check its version; a user who writes a file may not have that shell.
    script = ShellComplete.source(found(cli, {}, "onrecord", VARIABLE))
    if settings.json:
        say_json({"shell": shell, "script": script})
    else:
        say(script)
