"""The help desk, asked by a tired person: short questions of all kinds, with few capital letters and no patience."""

import itertools
import re

from helpdesk_play import OpenDesk

QUESTIONS = """\
hey
do u ship to canada
ship to germany?
and mexico?
how much is express
and normal shipping
how long does it take
can i pay with bitcoin
what about apple pay
crypto?
do you take cash
can i pay later
invoice payment possible?
student discount??
military discount?
are you a bot
whats ur name
tell me a joke
another one
wheres my order A-10412
and when is it here
i want my money back for A-10398
where is the nearest shop
nearest shop to 02116
open sunday?
something for the heat
my room is hot
gift for my dad he likes camping under $60
gift for mother who loves cooking
and for my brother
cheaper
got any kettles
the second one
is that in stock
in boston
price match amazon?
do you match walmart too
gift wrap?
can you engrave it
do u have couches
do you sell cars
what about bikes
privacy??
do you sell my data
are you hiring
jobs for students?
warranty on the kettle
my kettle is broken
never mind
can i return opened stuff
return without box?
newsletter unsubscribe
delete my account
whats the weather
who won the game
can you call me
how long do i wait
thanks
ok
bye
how much is a gift card
and how long is it good
do u deliver on sundays
"""


async def test_two_questions_in_a_row_never_get_the_same_answer_word_by_word(opened: OpenDesk) -> None:
    asked = QUESTIONS.splitlines()
    assert len(asked) >= 60
    async with opened() as desk:
        answers = [(await desk.say(question)).text for question in asked]
    assert [question for question, answer in zip(asked, answers, strict=True) if not answer] == []
    same = [
        (before, after, answer)
        for before, after, answer, last in zip(asked, asked[1:], answers[1:], answers, strict=False)
        if answer == last
    ]
    assert same == []


async def test_no_sentence_comes_twice_for_two_questions_that_nobody_can_answer(opened: OpenDesk) -> None:
    """Also when the supervisor passes them on."""
    asked = [
        "what are you",
        "do you like dogs",
        "hm, what about the weather?",
        "and the stock market?",
        "can you sing me a song",
    ]
    async with opened() as desk:
        answers = [(await desk.say(question)).text for question in asked]
    sentences = [{each.strip() for each in re.split(r"(?<=[.?!]) ", answer)} for answer in answers]
    assert [before & after for before, after in itertools.pairwise(sentences)] == [set()] * (len(asked) - 1)


async def test_what_it_does_not_offer_is_said(opened: OpenDesk) -> None:
    asked = {
        "do u ship to canada": "Yes, we ship to Canada for $14.90.",
        "can i pay with bitcoin": "No, we take no crypto.",
        "do you take cash": "In our stores, yes.",
        "how much is express": "$12.90",
        "who won the game": "I have no answer to “who won the game”. I can track and cancel orders",
    }
    async with opened() as desk:
        for place, (question, answer) in enumerate(asked.items()):
            assert answer in (await desk.say(question, session=str(place))).text


async def test_a_question_for_a_shop_is_answered_after_one_for_a_refund(opened: OpenDesk) -> None:
    async with opened() as desk:
        await desk.say("i want my money back for A-10398")
        assert "In which town" in (await desk.say("where is the nearest shop")).text


async def test_a_gift_for_a_relative_fits_what_is_said_of_the_relative(opened: OpenDesk) -> None:
    asked = {
        "a gift for my dad, he likes camping, under $60": ("Torch", "Bottle"),
        "gift for my mother who loves cooking": ("Pan", "Saucepan", "Knife"),
    }
    async with opened() as desk:
        for place, (question, names) in enumerate(asked.items()):
            answer = (await desk.say(question, session=str(place))).text
            assert any(name in answer for name in names), answer
