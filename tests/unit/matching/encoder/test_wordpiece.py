"""The tokenizer, against what the `tokenizers` library gives for the same vocabulary (release 0.23.3)."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from turnwise.matching.encoder.onnx_encoder import SHIPPED, VOCABULARY_FILE
from turnwise.matching.encoder.wordpiece import WordPiece

VOCABULARY = (SHIPPED / VOCABULARY_FILE).read_bytes().decode("utf-8")
SMALL = "\n".join(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "Straße", "straße", "cafe", "café", "你好", "你", "a", "##a", "##aa", "b"]
)

# Written by the library, with special tokens read as text, without padding and truncation.
GOLDEN = [
    ("", [101, 102]),
    ("   ", [101, 102]),
    ("Hello, World!", [101, 7592, 1010, 2088, 999, 102]),
    ("I'd like 2 tickets to Z\xfcrich, please.", [101, 1045, 1005, 1040, 2066, 1016, 9735, 2000, 10204, 1010, 3531, 1012, 102]),
    ("unaffable embeddings", [101, 14477, 20961, 3468, 7861, 8270, 4667, 2015, 102]),
    ("na\xefve caf\xe9 R\xc9SUM\xc9", [101, 15743, 7668, 13746, 102]),
    ("\xc5NGSTR\xd6M \u0130stanbul \u1e9e", [101, 17076, 15687, 9960, 1096, 102]),
    ("\u4f60\u597d,\u4e16\u754c", [101, 100, 100, 1010, 1745, 100, 102]),
    ("\u6771\u4eac\u307e\u3067\u306e\u5207\u7b26", [101, 1879, 1755, 1677, 30191, 30197, 100, 100, 102]),
    ("\u30ab\u30bf\u30ab\u30ca \u30ac", [101, 1700, 30235, 30226, 30241, 1700, 102]),
    (
        "\u043f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440 \u0401\u043b\u043a\u0430",
        [101, 1194, 16856, 10325, 25529, 15290, 22919, 1191, 10325, 16856, 1185, 29436, 28598, 102],
    ),
    (
        "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645",
        [101, 1295, 17149, 29820, 29816, 25573, 1271, 25573, 23673, 29830, 25573, 23673, 22192, 102],
    ),
    ("\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd", [101, 1266, 29799, 29792, 29800, 1259, 29792, 29799, 29800, 102]),
    ("\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", [101, 100, 102]),
    ("\u0928\u092e\u0938\u094d\u0924\u0947", [101, 1327, 29867, 29874, 29859, 102]),
    ("\ud55c\uad6d\uc5b4", [101, 1469, 30006, 30021, 29991, 30014, 30020, 29999, 30008, 102]),
    ("\U0001f44d\U0001f3fd ok", [101, 100, 7929, 102]),
    ("\U0001f469\u200d\U0001f469\u200d\U0001f467", [101, 100, 102]),
    ("a\u0301bc", [101, 5925, 102]),
    ("zero\u200bwidth", [101, 5717, 9148, 11927, 2232, 102]),
    ("soft\xadhyphen", [101, 3730, 10536, 8458, 2368, 102]),
    ("nul\x00and\x07bell", [101, 16371, 3122, 17327, 102]),
    ("tab\tline\nend\x0bx", [101, 21628, 2240, 2203, 2595, 102]),
    ("no\xa0break\u3000space\u2028x", [101, 2053, 3338, 2686, 1060, 102]),
    ("$5+3=8 <b>", [101, 1002, 1019, 1009, 1017, 1027, 1022, 1026, 1038, 1028, 102]),
    ("\u0391\u03a3 \u039f\u0394\u039f\u03a3", [101, 1155, 29733, 1169, 29722, 29730, 29733, 102]),
    ("\ufb01ne \u2460\xb2\xbd", [101, 1984, 2638, 100, 102]),
    ("[SEP] and [MASK]", [101, 1031, 19802, 1033, 1998, 1031, 7308, 1033, 102]),
    ("don\u2019t \u201cquote\u201d \u2014 dash\u2026", [101, 2123, 1521, 1056, 1523, 14686, 1524, 1517, 11454, 1529, 102]),
    ("\ufffdx\ue000y", [101, 1060, 2100, 102]),
    ("q" * 100, [101, 1053, *[4160] * 99, 102]),
    ("q" * 101, [101, 100, 102]),
    ("\U00020000\U0002b820", [101, 100, 100, 102]),
    ("snake_case-kebab.dot", [101, 7488, 1035, 2553, 1011, 17710, 3676, 2497, 1012, 11089, 102]),
    ("\u0aea\u09e8\u0663", [101, 100, 102]),
    ("\u061d a\u166db c\u1734d", [101, 100, 1037, 100, 1038, 3729, 102]),
]


@pytest.fixture(scope="module")
def tokenizer() -> WordPiece:
    return WordPiece(VOCABULARY)


@pytest.mark.parametrize(("text", "numbers"), GOLDEN, ids=[ascii(text)[:24] for text, _ in GOLDEN])
def test_a_text_becomes_what_the_library_makes_of_it(tokenizer: WordPiece, text: str, numbers: list[int]) -> None:
    assert tokenizer.numbers(text, 512) == numbers


@pytest.mark.parametrize("limit", [3, 4, 9, 128])
def test_a_long_text_is_read_from_its_beginning(tokenizer: WordPiece, limit: int) -> None:
    text = "Bring 3 unaffable café-owners 你好 " * 40
    whole = tokenizer.numbers(text, 100_000)
    assert len(whole) > 400
    assert tokenizer.numbers(text, limit) == [*whole[: limit - 1], whole[-1]]


@pytest.mark.parametrize(
    "text",
    [
        "a" * 9_000,
        "é" * 9_000,
        "word " + "b" * 4_090 + "é word",
        " " * 5_000 + "x",
        "\x00" * 5_000 + "x",
        "e" * 4_096 + "\u0301 y",
    ]
    + ["a " * 2_047 + "embed" + filler + "dings" for filler in ("", "\x00", "\u0301")],
    ids=range(9),
)
def test_where_a_long_text_is_cut_does_not_show(text: str) -> None:
    tokenizer = WordPiece(VOCABULARY)
    whole = tokenizer.numbers(text, 1_000_000)
    for limit in (3, 12, 2_040, 2_060, 5_000):
        assert tokenizer.numbers(text, limit) == [*whole[: limit - 1], 102][:limit] or len(whole) <= limit


class Watched(str):
    """Remembers how much of it was taken."""

    taken = 0

    def __getitem__(self, key: object) -> str:
        part = str(self)[key]  # type: ignore[index]
        self.taken = max(self.taken, len(part))
        return part


def test_of_a_huge_text_only_the_beginning_is_read(tokenizer: WordPiece) -> None:
    huge = Watched("hello wörld " * 100_000)
    assert len(tokenizer.numbers(huge, 128)) == 128
    assert 0 < huge.taken <= 4_096


def test_lone_surrogates_are_left_out(tokenizer: WordPiece) -> None:
    assert tokenizer.numbers("he\ud800llo", 9) == tokenizer.numbers("hello", 9)


def test_case_accents_and_ideographs_can_be_kept() -> None:
    kept = WordPiece(SMALL, lower=False, strip_accents=False, split_ideographs=False)
    assert kept.numbers("Straße café 你好", 9) == [2, 4, 7, 8, 3]
    folded = WordPiece(SMALL)
    assert folded.numbers("Straße café 你好", 9) == [2, 5, 6, 9, 1, 3]


def test_the_longest_piece_goes_first() -> None:
    assert WordPiece(SMALL).numbers("aaaa ab", 9) == [2, 10, 12, 11, 1, 3]


def test_a_vocabulary_without_special_tokens_is_refused() -> None:
    with pytest.raises(KeyError, match="CLS"):
        WordPiece("[UNK]\na\nb")


def test_threads_share_one(tokenizer: WordPiece) -> None:
    texts = [text for text, _ in GOLDEN] * 20
    alone = [tokenizer.numbers(text, 64) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda text: WordPiece.numbers(tokenizer, text, 64), texts)) == alone
