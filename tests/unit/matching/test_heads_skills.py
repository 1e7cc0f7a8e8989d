"""The parts of what belongs to a label."""

import numpy as np

from turnwise.matching.heads import Floats, directions, split


def around(middles: Floats, each: int) -> Floats:
    noise = np.random.default_rng(5).normal(scale=0.05, size=(len(middles) * each, middles.shape[1]))
    return directions((np.repeat(middles, each, axis=0) + noise).astype(np.float32))


def test_a_label_of_several_subjects_is_split_along_them() -> None:
    vectors = around(np.eye(8, dtype=np.float32), 10)
    owners = np.repeat([0, 1], 40)
    skills, parents = split(vectors, owners, [""] * 80)
    assert len(parents) > 4
    assert (parents[skills] == owners).all()
    assert (np.diff(parents) >= 0).all()
    subjects = np.repeat(np.arange(8), 10)
    assert all(len(set(subjects[skills == skill])) == 1 for skill in set(skills.tolist()))


def test_few_phrases_stay_together() -> None:
    skills, parents = split(around(np.eye(3, dtype=np.float32), 4), np.repeat([0, 1, 2], 4), [""] * 12)
    assert (skills == np.repeat([0, 1, 2], 4)).all()
    assert parents.tolist() == [0, 1, 2]


def test_with_very_many_labels_none_is_split() -> None:
    owners = np.repeat(np.arange(200), 20)
    skills, parents = split(np.tile(np.eye(10, dtype=np.float32), (400, 1)), owners, [""] * 4000)
    assert (skills == owners).all()
    assert len(parents) == 200


def test_known_skills_are_kept() -> None:
    names = ["pay", "", "refund", "pay", "ship"]
    skills, parents = split(np.eye(5, dtype=np.float32), np.array([0, 0, 0, 0, 1]), names)
    assert skills[0] == skills[3]
    assert len({int(skills[0]), int(skills[1]), int(skills[2])}) == 3
    assert parents.tolist() == [0, 0, 0, 1]
