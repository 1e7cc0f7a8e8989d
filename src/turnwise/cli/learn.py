"""`turnwise learn`: proposes examples, pattern confidences and thresholds from labelled decisions."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from turnwise.cli.eval import check_writable, write_report
from turnwise.cli.exits import FAILED, OK, UsageProblem
from turnwise.cli.options import ConfigOption, JsonOption

if TYPE_CHECKING:
    from turnwise.assemble import App
    from turnwise.config.learned_drafts import StoredDrafts
    from turnwise.facts.callers import ApiKey
    from turnwise.learning.learn import Learned, Traffic
    from turnwise.learning.traffic import LogTraffic
    from turnwise.runner import Runner

_TIMES = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f"]


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("learn", short_help="Propose examples and thresholds from labelled decisions.")(learn)


def learn(
    cases: Annotated[
        list[Path] | None,
        typer.Option(
            "--from", metavar="FILE", help="A file of cases, as for eval; by default the labelled decisions of the log."
        ),
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option("--since", metavar="TIME", formats=_TIMES, help="Only decisions made then (UTC) or later."),
    ] = None,
    trust: Annotated[
        list[str] | None,
        typer.Option(
            "--trust",
            metavar="KEY_ID",
            help="The key of a server that speaks for many users: they count as separate sources. May be repeated.",
        ),
    ] = None,
    min_gain: Annotated[
        float, typer.Option("--min-gain", min=0, max=1, metavar="0..1", help="The least gain of accuracy on later decisions.")
    ] = 0.0,
    max_loss: Annotated[
        float, typer.Option("--max-loss", min=0, max=1, metavar="0..1", help="The most accuracy that an agent may lose.")
    ] = 0.0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The seed of the intervals.")] = 0,
    draft: Annotated[
        bool, typer.Option("--draft", help="Store what is proposed as drafts of definitions; nothing serves them yet.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE.yaml", help="Write what is proposed as YAML.")
    ] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Propose examples, pattern confidences and thresholds from labelled decisions. Nothing goes live by itself.

    The later decisions judge what was learned from the earlier ones. Exits with 1 if nothing is surely better.
    """
    from turnwise.cli import terminal
    from turnwise.cli.learn_output import proposal_yaml

    if output is not None:
        check_writable(output, "--output")
    reads = _Reads(cases or [], since, _callers(trust or []))
    result = asyncio.run(_learn(config, reads, _Bounds(min_gain, max_loss, seed), draft))
    _print_result(result, as_json, trust or [])
    found = result.found
    if output is not None and found.proposal is not None:
        write_report(output, proposal_yaml(found.proposal))
        terminal.print_note(f"proposal: {output}")
    raise typer.Exit(OK if found.proposal is not None else FAILED)


def _print_result(result: "_Result", as_json: bool, trusted: list[str]) -> None:
    """Prints the proposal, the credentials with too many labels, and the drafts."""
    from turnwise.cli import terminal
    from turnwise.cli.learn_output import (
        capped_data,
        capped_lines,
        drafts_data,
        drafts_lines,
        learned_lines,
        worn_data,
        worn_lines,
    )
    from turnwise.cli.text_layout import wrap

    found, drafts, judged, keys = result
    if as_json:
        data = {**found.data(), **capped_data(found, keys), **worn_data(judged)}
        terminal.print_json({**data, "drafts": drafts_data(drafts)})
    else:
        lines = [*learned_lines(found), *capped_lines(found, keys, trusted), *worn_lines(judged), *drafts_lines(drafts)]
        terminal.print_lines(wrap(lines, terminal.width()))


class _Reads(NamedTuple):
    """The labels to learn from."""

    cases: list[Path]
    """Files; empty for the log."""
    since: datetime | None
    trusted: list[str]
    """Ids of callers each of whose users is a source of labels; all users of another caller are one source."""


class _Bounds(NamedTuple):
    """When a proposal is refused."""

    min_gain: float
    max_loss: float
    seed: int


class _Result(NamedTuple):
    """What a run gives."""

    found: "Learned"
    drafts: "StoredDrafts | None"
    judged: int | None
    """How many drafts the later messages have judged; None if they judged none or the store cannot count."""
    keys: "Mapping[str, ApiKey]"
    """The app's keys by the digest of their callers, if labels of some are over the cap."""


def _callers(key_ids: Sequence[str]) -> list[str]:
    """Returns the callers' ids of these keys. Raises UsageProblem for what is no key's id."""
    from turnwise.access.api_keys import caller_id, is_key_id

    for each in key_ids:
        if not is_key_id(each):
            raise UsageProblem(f"{each!r} is no id of a key.", fix="`turnwise keys list` shows the ids.")
    return [caller_id(each) for each in key_ids]


async def _learn(config: Path | None, reads: _Reads, bounds: _Bounds, draft: bool) -> _Result:
    """Learns a proposal from the cases, or from the labels of the log, and stores it as a draft if wanted."""
    from turnwise.cli.evaluation import prepare
    from turnwise.cli.options import open_app
    from turnwise.cli.progress_bars import work_bar
    from turnwise.facts.errors import ConfigError
    from turnwise.learning.cases import read_cases
    from turnwise.learning.learn import learn
    from turnwise.learning.traffic import CaseTraffic

    read = read_cases(reads.cases) if reads.cases else []
    async with open_app(config) as app:
        if draft and app.editor is None:
            problem = "The session store of this app keeps no definitions, so it keeps no drafts."
            raise ConfigError(problem, fix="Use a SQL database as `store`, or write the proposal with --output.")
        cascade = app.runner.cascade
        await prepare(cascade)
        with work_bar("learning"):
            traffic: Traffic
            traffic = await CaseTraffic.read(read, cascade) if read else await _log(app.runner, reads)
            found = await learn(cascade, traffic, **bounds._asdict())
        is_kept = draft or not getattr(app.runner.store, "is_unmade", False)  # a command that only reads makes no database
        judged = await _count_draft(app.runner, reads.cases, found) if is_kept else None
        drafts = await _store_drafts(app, found, bounds.seed) if draft else None
        return _Result(found, drafts, judged, await _keys(app.runner) if found.capped_credentials else {})


async def _keys(runner: "Runner") -> "dict[str, ApiKey]":
    """Returns the app's keys by the digest of their callers; none if the store keeps none."""
    from turnwise.access.api_keys import caller_id
    from turnwise.facts.callers import credential_digest
    from turnwise.ports.key_store import KeyStore

    if not isinstance(runner.store, KeyStore):
        return {}
    return {credential_digest(caller_id(key.id)): key for key in await runner.store.keys.list(runner.app)}


async def _log(runner: "Runner", reads: _Reads) -> "LogTraffic":
    """Reads the labelled traffic of the session store since that time; without a zone it is UTC."""
    from datetime import UTC

    from turnwise.learning.traffic import LogTraffic

    since = reads.since
    since = since.replace(tzinfo=UTC) if since is not None and since.tzinfo is None else since
    return await LogTraffic.read(runner.store, runner.app, runner.cascade, since=since, trusted=reads.trusted)


async def _count_draft(runner: "Runner", cases: list[Path], found: "Learned") -> int | None:
    """Counts that these judging cases were used for one more draft, in the audit log. None without such a log."""
    from turnwise.cli.records import ACTOR
    from turnwise.learning.draft_gain import count_draft
    from turnwise.ports.holds import RecordStore

    if not found.judged_at or not isinstance(runner.store, RecordStore):
        return None
    digest = hashlib.sha256(b"\0".join([await asyncio.to_thread(path.read_bytes) for path in cases])).hexdigest()[:16]
    return await count_draft(runner.store.audit, runner.app, ACTOR, digest if cases else "log", found.judged_at)


async def _store_drafts(app: "App", found: "Learned", seed: int) -> "StoredDrafts | None":
    """Stores the proposal as drafts of definitions; None without a proposal."""
    from turnwise.cli.agents import author
    from turnwise.cli.learn_output import points
    from turnwise.config.learned_drafts import store_drafts

    if found.proposal is None or found.gain is None:
        return None
    assert app.editor is not None
    note = f"Learned from {found.learned_from} labels. On {found.judged_by} later ones: {points(found.gain)}. Seed {seed}."
    return await store_drafts(app.editor, app.runner.cascade, found.proposal, author(note))
