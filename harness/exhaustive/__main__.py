"""``python -m harness.exhaustive --clusters 300``: plans of tiny clusters beside the best of all placements that moves can reach."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence

import click

from harness.exhaustive.clusters import Topic, tiny_cluster
from harness.exhaustive.judging import Judged, judged
from harness.exhaustive.search import worse_in
from rescheduler.planning.limits import EFFORT
from rescheduler.policies.objective import Tier


@click.command()
@click.option("--clusters", default=300, show_default=True, help="How many; their topics take turns.")
@click.option("--first", default=0, show_default=True, help="The first seed.")
@click.option("--effort", default=EFFORT, show_default=True, help="Of each plan.")
@click.option("--topic", type=click.Choice([str(topic) for topic in Topic]), help="Only clusters about this.")
@click.option("--each", is_flag=True, help="Print every cluster that falls short or wastes moves.")
def main(*, clusters: int, first: int, effort: int, topic: str | None, each: bool) -> None:
    """Print a line for each topic; exit code 1 if a plan makes something worse, is refused or does not come to rest."""
    found: defaultdict[str, list[Judged]] = defaultdict(list)
    faults = 0
    for seed in range(first, first + clusters):
        cluster = tiny_cluster(seed)
        if topic not in (None, cluster.topic):
            continue
        one = judged(cluster, effort)
        found[cluster.topic].append(one)
        found["all"].append(one)
        for fault in one.faults:
            click.echo(f"seed {seed}: {fault}")
        faults += len(one.faults) + one.refused
        if each and (one.found_wanting is not None or one.wasted):
            click.echo(_words(one), nl=True)
            sys.stdout.flush()
    click.echo(
        f"{'topic':14} {'clusters':>8} {'better':>6} | best after 1 plan, 2, at rest | "
        f"{'moves':>5} / fewest, of those at the best: moves / fewest | refused"
    )
    for name in sorted(found, key=lambda name: name == "all"):
        click.echo(_line(name, found[name]))
    sys.exit(int(bool(faults)))


def _line(name: str, rows: Sequence[Judged]) -> str:
    """``better``: clusters of which something can be made better."""
    better = [one for one in rows if worse_in(one.start, one.best) is not None]
    shares = [_share([_improved(one, plans) for one in better]) for plans in (1, 2, 99)]
    known = [one for one in rows if one.rounds[-1].fewest is not None]
    moves, fewest = (
        sum(one.rounds[-1].moves for one in known),
        sum(one.rounds[-1].fewest or 0 for one in known),
    )
    whole = [one for one in rows if one.found_wanting is None]
    return (
        f"{name:14} {len(rows):8} {len(better):6} | {shares[0]:17.3f} {shares[1]:.3f} {shares[2]:7.3f} | {moves:5} / {fewest:6}, "
        f"{sum(one.rounds[-1].moves for one in whole):30} / {sum(one.best_moves for one in whole):6} | {sum(one.refused for one in rows)}"
    )


def _improved(one: Judged, plans: int) -> float:
    """How much of what can be made better is, 0..1: of the first tier in which it falls short of the best."""
    now = one.after(plans).badness
    tier = worse_in(now, one.best)
    if tier is None:
        return 1.0
    possible = one.start[tier] - one.best[tier]
    return max(0.0, (one.start[tier] - now[tier]) / possible) if possible > 0 else 0.0


def _share(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 1.0


def _words(one: Judged) -> str:
    tier = one.found_wanting
    last, cluster = one.rounds[-1], one.cluster
    short = f"short in {tier.name}" if isinstance(tier, Tier) else "best"
    return (
        f"seed {cluster.seed} {cluster.topic}: {short}: {one.start} -> {last.badness}, best {one.best} in {one.best_moves} moves, "
        f"of all {one.best_of_all}; {last.moves} moves in {len(one.rounds) - 1} plans, {last.fewest} would do; {one.placements} placements"
    )


if __name__ == "__main__":
    main()
