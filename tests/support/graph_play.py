"""Random tasks for property tests."""

from hypothesis import strategies as st

from turnwise.flows.tasks import Task

MOST = 10
DRAWN = st.lists(
    st.tuples(
        st.integers(0, MOST),  # its rank: a task needs only those of a lower one
        st.integers(0, 2**MOST - 1),  # which of these, as bits
        st.integers(0, 2 * MOST),  # which of the higher ones it is a part of, if any
        st.booleans(),
    ),
    min_size=1,
    max_size=MOST,
)


def acyclic() -> st.SearchStrategy[list[Task]]:
    """Tasks that form no cycle, created in any order; some are parts of others, some are done always."""
    return DRAWN.map(_tasks)


@st.composite
def with_a_cycle(draw: st.DrawFn) -> list[Task]:
    """The same with dependencies that close a cycle somewhere."""
    tasks = draw(acyclic())
    ring = draw(st.permutations([task.name for task in tasks]))[: draw(st.integers(1, len(tasks)))]
    more = dict(zip(ring, [*ring[1:], ring[0]], strict=True))
    return [
        Task(task.name, depends_on=[*task.depends_on, *([more[task.name]] if task.name in more else [])], parent=task.parent)
        for task in tasks
    ]


def _tasks(drawn: list[tuple[int, int, int, bool]]) -> list[Task]:
    names = [f"t{number}" for number in range(len(drawn))]
    ranked = [name for _, name in sorted(zip([rank for rank, *_ in drawn], names, strict=True))]
    tasks = []
    for name, (_, needs, part_of, always) in zip(names, drawn, strict=True):
        rank = ranked.index(name)
        higher = ranked[rank + 1 :]
        depends_on = [need for bit, need in enumerate(ranked[:rank]) if needs >> bit & 1]
        parent = higher[part_of] if part_of < len(higher) else None
        tasks.append(Task(name, depends_on=depends_on, parent=parent, run_if="always" if always else "success"))
    return tasks
