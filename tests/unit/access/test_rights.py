"""What callers may do, and for whom."""

import pytest

from turnwise.access.rights import PERMISSIONS, RIGHTS, may_report_late_results, reaches_all, require, roles_of, user_of
from turnwise.facts.callers import Caller, Permission
from turnwise.facts.errors import Forbidden, RequestInvalid

ANN = Caller(id="key:1", user="ann")
SHOP = Caller(id="key:2", acts_for_users=True)
OPERATOR = Caller(id="key:3", role="operator")
ADMIN = Caller(id="key:4", role="admin", user="root")


def test_each_role_may_what_those_before_it_may() -> None:
    assert set(RIGHTS["user"]) < set(RIGHTS["operator"]) < set(RIGHTS["admin"]) == set(PERMISSIONS)


@pytest.mark.parametrize("permission", ["decisions:label", "metrics:read", "audit:read"])
def test_a_user_may_not_what_only_operators_may(permission: Permission) -> None:
    for caller in (ANN, SHOP):
        with pytest.raises(Forbidden, match=permission):
            require(caller, permission)
    assert reaches_all(OPERATOR, permission)


def test_scopes_narrow_what_a_role_may_and_never_widen_it() -> None:
    narrow = OPERATOR.replace(scopes=("sessions:read",))
    assert reaches_all(narrow, "sessions:read")
    with pytest.raises(Forbidden):
        require(narrow, "decisions:read")
    with pytest.raises(Forbidden):
        require(ANN.replace(scopes=("metrics:read",)), "metrics:read")
    with pytest.raises(Forbidden):
        require(ANN.replace(scopes=()), "messages:write")


def test_whose_it_is_comes_from_the_credential() -> None:
    assert user_of(ANN, None, "messages:write") == "ann"
    assert user_of(ANN, "ann", "messages:write") == "ann"
    with pytest.raises(Forbidden, match="another user"):
        user_of(ANN, "bob", "sessions:read")
    assert user_of(SHOP, "bob", "messages:write") == "bob"
    with pytest.raises(RequestInvalid) as missing:
        user_of(SHOP, None, "messages:write")
    assert missing.value.where == ("user",)
    assert "?user=" in missing.value.fix


def test_nobody_speaks_in_anothers_name_for_his_rank() -> None:
    assert user_of(OPERATOR, "bob", "sessions:read") == "bob"
    assert user_of(ADMIN, "bob", "sessions:write") == "bob"
    for caller in (OPERATOR, ADMIN):
        with pytest.raises(Forbidden):
            user_of(caller, "bob", "messages:write")
        with pytest.raises(RequestInvalid) as missing:
            user_of(caller.replace(user=None), None, "messages:write")
        assert "?user=" not in missing.value.fix, "naming one would be refused"
    with pytest.raises(Forbidden):
        user_of(OPERATOR, "bob", "sessions:write")


def test_roles_by_which_agents_are_reached_are_the_callers() -> None:
    """C20"""
    staff = ANN.replace(agent_roles=("staff", "sales"))
    assert roles_of(staff) == ("staff", "sales")
    assert roles_of(staff, ["sales", "sales"]) == ("sales",)
    with pytest.raises(Forbidden, match="'board'"):
        roles_of(staff, ["staff", "board"])
    assert roles_of(ANN) == ()
    anybody = ANN.replace(agent_roles=None)
    assert roles_of(anybody, ["board"]) == ("board",)
    assert roles_of(anybody) == ()


def test_who_did_the_work_says_what_became_of_it() -> None:
    """Not the user for whom it was done, nor an operator, who watches."""
    assert [may_report_late_results(each) for each in (ANN, OPERATOR, SHOP, ADMIN)] == [False, False, True, True]
