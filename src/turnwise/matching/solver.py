"""L-BFGS: minimizes a smooth function of many variables from its value and gradient."""

from collections import deque
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Objective = Callable[[NDArray[np.float32]], tuple[float, NDArray[np.float32]]]
"""Returns the value and the gradient at a point. The gradient has the point's shape."""

Rescale = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""Preconditioner: an approximate inverse Hessian, linear, symmetric and positive definite, applied to a direction."""

Tick = Callable[[], None]
"""Callback during long work, at most sizes every few tenths of a second. An exception from it stops the work."""

_MEMORY = 10
_SUFFICIENT = 1e-4
_HALVINGS = 20


def minimize(
    objective: Objective,
    start: NDArray[np.float32],
    *,
    rescale: Rescale | None = None,
    steps: int = 100,
    tolerance: float = 1e-4,
    tick: Tick | None = None,
) -> NDArray[np.float32]:
    """Minimizes the objective from `start`, which may have any shape and is not modified.

    Limited-memory BFGS with the two-loop recursion (Nocedal and Wright, Numerical Optimization, algorithm 7.5) and a
    backtracking line search. It stops after `steps` steps, when no entry of the gradient exceeds `tolerance`, or when rounding
    prevents further descent. The value never increases, so the result is at least as good as `start`.

    Args:
        objective: The function.
        start: The starting point.
        rescale: A preconditioner; a good one saves most of the steps.
        steps: Maximum number of steps.
        tolerance: Maximum absolute gradient entry at the end.
        tick: Called before each step.
    """
    point = start
    value, gradient = objective(point)
    memory: deque[tuple[NDArray[np.float32], NDArray[np.float32], float]] = deque(maxlen=_MEMORY)
    for _ in range(steps):
        if tick:
            tick()
        if float(np.abs(gradient).max(initial=0.0)) <= tolerance:
            break
        direction = _direction(gradient, memory, rescale)
        slope = _dot(direction, gradient)
        if slope >= 0.0:  # rounding errors corrupted the history: restart with steepest descent
            memory.clear()
            direction, slope = -gradient, -_dot(gradient, gradient)
        found = _search(objective, point, value, direction, slope, first=not memory and rescale is None)
        if found is None:
            break
        moved, value, steeper = found
        step, change = moved - point, steeper - gradient
        curvature = _dot(step, change)
        if curvature > 1e-10 * _dot(change, change):
            memory.append((step, change, 1.0 / curvature))
        point, gradient = moved, steeper
    return point


def _direction(
    gradient: NDArray[np.float32],
    memory: deque[tuple[NDArray[np.float32], NDArray[np.float32], float]],
    rescale: Rescale | None,
) -> NDArray[np.float32]:
    """Returns the next direction by the two-loop recursion of L-BFGS."""
    direction = -gradient
    weights = []
    for step, change, inverse in reversed(memory):
        weights.append(inverse * _dot(step, direction))
        direction = direction - np.float32(weights[-1]) * change
    if rescale is not None:
        direction = rescale(direction)
    elif memory:
        _, change, inverse = memory[-1]
        direction *= np.float32(1.0 / (inverse * _dot(change, change)))
    for (step, change, inverse), weight in zip(memory, reversed(weights), strict=True):
        direction += np.float32(weight - inverse * _dot(change, direction)) * step
    return direction


def _search(
    objective: Objective,
    point: NDArray[np.float32],
    value: float,
    direction: NDArray[np.float32],
    slope: float,
    *,
    first: bool,
) -> tuple[NDArray[np.float32], float, NDArray[np.float32]] | None:
    """Returns a point along the direction with sufficient decrease, its value and gradient; None when there is none."""
    length = min(1.0, 1.0 / max(float(np.abs(direction).max()), 1e-12)) if first else 1.0
    for _ in range(_HALVINGS):
        moved = point + np.float32(length) * direction
        reached, gradient = objective(moved)
        if reached <= value + _SUFFICIENT * length * slope:
            return moved, reached, gradient
        # Minimum of the parabola through both values and the slope, clamped to 0.1–0.5 of the step.
        bend = 2.0 * (reached - value - length * slope)
        least = -slope * length * length / bend if bend > 0.0 else 0.5 * length
        length = min(max(least, 0.1 * length), 0.5 * length)
    return None


def _dot(left: NDArray[np.float32], right: NDArray[np.float32]) -> float:
    return float(np.vdot(left, right))
