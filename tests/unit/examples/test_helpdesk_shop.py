"""The help desk's shop: its database, and every question that is put to it."""

import sqlite3
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest
from helpdesk import database, reading
from helpdesk.shop import accounts, billing, catalogue, orders, stores

pytestmark = pytest.mark.usefixtures("shop_file")

TODAY = date(2026, 11, 19)


def test_database_is_made_when_it_is_first_opened(shop_file: Path) -> None:
    assert not shop_file.exists()
    assert len(stores.all_stores()) == 12
    assert shop_file.exists()
    assert [file.name for file in shop_file.parent.iterdir()] == ["shop.db"]


def test_making_it_again_keeps_or_replaces(shop_file: Path) -> None:
    accounts.open_case("dana@example.com", "help")
    database.make(shop_file)
    assert accounts.cases_before(2) == 1
    database.make(shop_file, replace=True)
    assert accounts.cases_before(2) == 0


def test_same_day_gives_the_same_rows(tmp_path: Path) -> None:
    """E9: passwords aside, whose salt is new every time."""
    dumps = []
    for name in ("one.db", "two.db"):
        database.make(tmp_path / name)
        with closing(sqlite3.connect(tmp_path / name)) as connection:
            dumps.append([line for line in connection.iterdump() if '"accounts"' not in line and "docsize" not in line])
    assert dumps[0] == dumps[1]
    assert len(dumps[0]) > 500


def test_a_file_that_is_no_shop_is_refused(shop_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop_file.write_bytes(b"not a database at all" * 100)
    with pytest.raises(database.DatabaseProblem, match="cannot be read"):
        stores.all_stores()
    shop_file.unlink()
    with closing(sqlite3.connect(shop_file)) as connection:
        connection.execute("CREATE TABLE other (x)")
    with pytest.raises(database.DatabaseProblem, match="schema 0"):
        stores.all_stores()
    monkeypatch.setenv("HELPDESK_DB", str(shop_file / "below" / "shop.db"))
    with pytest.raises(database.DatabaseProblem, match="HELPDESK_DB"):
        stores.all_stores()


def test_order_with_its_items() -> None:
    order = orders.order("A-10398")
    assert order is not None
    assert [item.name for item in order.items] == ["Aurora Glass Kettle", "Volt USB-C Charger", "Harbor Wool Blanket"]
    assert order.total == 4990 + 2200 + 6900
    assert order.delivered_on == date(2026, 11, 8)
    assert order.return_until == date(2026, 12, 8)
    assert order.warranty_until(order.items[0]) == date(2028, 11, 8)
    assert order.warranty_until(order.items[2]) is None
    assert orders.order("A-99999") is None


def test_warranty_that_ends_in_a_shorter_month() -> None:
    order = orders.order("A-10398")
    assert order is not None
    leap = order._replace(delivered_on=date(2028, 2, 29))
    assert leap.warranty_until(order.items[0]._replace(warranty_months=12)) == date(2029, 2, 28)
    assert leap.warranty_until(order.items[0]._replace(warranty_months=10)) == date(2028, 12, 29)


def test_orders_of_an_account_are_newest_first() -> None:
    assert [order.id for order in orders.orders_of("dana@example.com")] == ["A-10420", "A-10412", "A-10398", "A-10391"]
    assert orders.orders_of("nobody@example.com") == []


def test_cancelling_asks_for_the_money_back_once() -> None:
    assert orders.cancel("A-10420")
    assert not orders.cancel("A-10420")
    assert not orders.cancel("A-10412"), "it has left"
    assert not orders.cancel("A-99999")
    order = orders.order("A-10420")
    assert order is not None
    assert order.status == "cancelled"
    (refund,) = billing.refunds("A-10420")
    assert (refund.cents, refund.status, refund.expected_on) == (5900, "requested", date(2026, 11, 24))


def test_an_item_goes_back_once() -> None:
    first = orders.announce_return("A-10398", 1, reason="broken", note="a crack", way="post", receipt="artifact_1")
    assert first == 1
    assert orders.announce_return("A-10398", 1, reason="broken", note="again", way="post", receipt=None) is None
    assert orders.announce_return("A-10398", 2, reason="other", note="", way="store", receipt=None) == 2
    announced = orders.returns_of("A-10398")
    assert [(given.line, given.reason, given.receipt, given.created_on) for given in announced] == [
        (1, "broken", "artifact_1", TODAY),
        (2, "other", None, TODAY),
    ]


def test_a_return_of_what_was_not_bought_is_refused() -> None:
    with pytest.raises(sqlite3.IntegrityError):
        orders.announce_return("A-10398", 9, reason="broken", note="", way="post", receipt=None)


def test_one_claim_for_an_item() -> None:
    assert orders.claim_warranty("A-10393", 1, "it smells") == 1
    assert orders.claim_warranty("A-10393", 1, "it smells") is None


@pytest.mark.parametrize(
    ("words", "first"),
    [
        (["desk", "lamp"], "Luma Desk Lamp"),
        (["glass", "kettles"], "Aurora Glass Kettle"),
        (["wireless", "headphones"], "Tide Over-Ear Headphones"),
        (["vortex", "blender"], "Vortex Blender"),
        (["espresso"], "Barista Espresso Machine"),
        (["reading", "bed", "light"], "Luma Clip Lamp"),
        (["music", "shower"], "Pebble Bluetooth Speaker"),
    ],
)
def test_search_finds_the_best_first(words: list[str], first: str) -> None:
    assert catalogue.search(words)[0].name == first


def test_a_kind_finds_all_of_that_kind_first() -> None:
    assert [product.kind for product in catalogue.search(["kettles"])] == ["kettle"] * 3


def test_search_keeps_to_the_price_and_to_plain_words() -> None:
    assert [product.name for product in catalogue.search(["lamp"], at_most=3000)] == ["Luma Clip Lamp"]
    assert catalogue.search([]) == []


@pytest.mark.parametrize(
    ("message", "kinds"),
    [
        ("something to light my desk", {"lamp"}),
        ("my kitchen is cold, what do you have?", {"heater"}),
        ("how do I keep coffee warm on a hike?", {"bottle"}),
        ("I need to boil water", {"kettle"}),
        ("something to clean the floor", {"vacuum cleaner"}),
        ("do you sell bicycles?", set()),
        ("do you have a washing machine?", set()),
        ("a television", set()),
        ("shoes", set()),
    ],
)
def test_search_offers_what_fits_and_nothing_else(message: str, kinds: set[str]) -> None:
    """A word that stands in a description by chance ("light", "warm", "machine") is no fit."""
    assert {product.kind for product in catalogue.search(reading.words(message))} == kinds


def test_stock_is_that_of_the_stores_asked_for() -> None:
    boston = stores.in_town("boston")
    stock = catalogue.stock("P-113", boston)
    assert [store.name for store, _ in stock] == ["Boston Back Bay", "Boston Seaport"]
    assert all(0 <= pieces <= 6 for _, pieces in stock)


def test_frequent_questions() -> None:
    for question, holds in (
        ("what does shipping cost?", "$4.90"),
        ("do you ship to Canada?", "Canada"),
        ("do you ship to Germany?", "No, not yet"),
        ("what is your return policy?", "30 days"),
    ):
        assert holds in (catalogue.frequent_answer(question) or ""), question
    assert catalogue.frequent_answer("tell me about elephants") is None


@pytest.mark.parametrize(
    ("zip_code", "names"),
    [
        ("02116", ["Boston Back Bay"]),
        ("02139", ["Boston Back Bay"]),
        ("01605", ["Boston Back Bay", "Boston Seaport", "Providence"]),
        ("97299", ["Portland Pearl"]),
        ("80202", []),
    ],
)
def test_stores_near_a_zip_code(zip_code: str, names: list[str]) -> None:
    found = [store.name for store in stores.near_zip(zip_code)]
    assert found[: len(names)] == names
    assert bool(found) == bool(names)


def test_opening_hours() -> None:
    seaport = stores.store("S-03")
    assert seaport is not None
    assert seaport.open_on(date(2026, 11, 22)) is None, "closed on Sundays"
    span = seaport.open_on(TODAY)
    assert span is not None
    assert [f"{at:%H:%M}" for at in span] == ["10:00", "20:00"]
    assert len(stores.in_town("Portland")) == 2


def _code(email: str) -> str:
    return accounts.outbox(email)[-1].body.split()[3].strip(".")


def test_reset_with_the_right_code() -> None:
    email = "dana@example.com"
    assert accounts.can_sign_in(email, f"first {email}")
    reset = accounts.start_reset(email)
    assert accounts.try_code(reset, _code(email)) == "right"
    assert not accounts.can_sign_in(email, f"first {email}")
    password = accounts.outbox(email)[-1].body.split()[3]
    assert accounts.can_sign_in(email, password)
    assert accounts.try_code(reset, _code(email)) == "over", "a code is good once"


def test_three_wrong_codes_end_a_reset() -> None:
    email = "dana@example.com"
    reset = accounts.start_reset(email)
    code = _code(email)
    wrong = f"{(int(code) + 1) % 1_000_000:06d}"
    assert [accounts.try_code(reset, wrong) for _ in range(3)] == ["wrong", "wrong", "over"]
    assert accounts.try_code(reset, code) == "over"
    assert accounts.can_sign_in(email, f"first {email}")


def test_a_code_is_good_for_fifteen_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    email = "dana@example.com"
    reset = accounts.start_reset(email)
    monkeypatch.setenv("HELPDESK_NOW", "2026-11-19T10:16")
    assert accounts.try_code(reset, _code(email)) == "over"


def test_a_reset_does_not_tell_who_has_an_account() -> None:
    reset = accounts.start_reset("nobody@example.com")
    assert accounts.outbox("nobody@example.com") == []
    assert accounts.try_code(reset, "000000") == "wrong"


def test_no_secret_is_kept_in_clear(shop_file: Path) -> None:
    email = "dana@example.com"
    reset = accounts.start_reset(email)
    code = _code(email)
    accounts.try_code(reset, code)
    with closing(sqlite3.connect(shop_file)) as connection:
        kept = (
            connection.execute("SELECT code_hash FROM resets").fetchall()
            + connection.execute("SELECT password_hash FROM accounts").fetchall()
        )
    assert all(code not in row[0] and "first" not in row[0] for row in kept)


def test_moving() -> None:
    assert accounts.move("dana@example.com", street="1 New St", town="Boston", state="MA", zip_code="02108")
    account = accounts.account("dana@example.com")
    assert account is not None
    assert (account.street, account.town, account.zip) == ("1 New St", "Boston", "02108")
    assert not accounts.move("nobody@example.com", street="", town="", state="", zip_code="")


def test_cases_wait_in_order() -> None:
    first, second = accounts.open_case("a@example.com", "one"), accounts.open_case("b@example.com", "two")
    assert (accounts.cases_before(first), accounts.cases_before(second)) == (0, 1)


def test_what_looks_like_a_double_charge() -> None:
    assert billing.same_purchases("A-10416") == ["A-10417"]
    assert billing.same_purchases("A-10420") == []
    assert orders.cancel("A-10417")
    assert billing.same_purchases("A-10416") == []


def test_refunds_of_an_account() -> None:
    assert [refund.order_id for refund in billing.refunds_of("luis@example.com")] == ["A-10413"]
    assert billing.refunds_of("dana@example.com") == []


def test_gift_cards() -> None:
    card = billing.gift_card("GC-1001-4471")
    assert card is not None
    assert (card.cents, card.expires_on > TODAY) == (5000, True)
    assert billing.gift_card("GC-0000-0000") is None
