"""The router learns experts from prompts, and knows what is for none of them."""

import pytest

from expert_worker.errors import BadInput
from expert_worker.routing.features import LONGEST, features
from expert_worker.routing.router import Examples, Router, everyday_prompts

_TABLES = ("orders", "flights", "patients", "songs", "trees")
_COLUMNS = ("price", "name", "year", "weight", "city")
SQL = [
    f"CREATE TABLE {table} (id INT, {column} TEXT);\nShow the {column} of all {table} above {number}."
    for number in range(3)
    for table in _TABLES
    for column in _COLUMNS
]
DISHES = ("soup", "bread", "risotto", "curry", "salad", "pie")
COOK = [
    f"{start} {style} {dish}{end}"
    for start in ("How do I cook a", "Give me a recipe for a", "What goes into a")
    for style in ("quick", "vegetarian", "spicy", "creamy")
    for dish in DISHES
    for end in ("?", " for four people?")
]
GERMAN = [
    f"Schreibe eine {art} an {wen} wegen {was}."
    for art in ("Mahnung", "Rechnung", "Kündigung", "Zusage")
    for wen in ("Frau Müller", "die Firma Groß", "den Händler", "das Amt")
    for was in ("der Lieferung", "des Vertrags", "der Übergabe", "einer Störung")
]


@pytest.fixture(scope="module")
def router() -> Router:
    return Router.learn([Examples("sql", SQL), Examples("letters", GERMAN)])


def test_each_prompt_goes_to_its_expert(router):
    assert router.route("CREATE TABLE boats (id INT, length INT);\nList the length of boats.").expert == "sql"
    expert, confidence = router.route("Schreibe eine Absage an Herrn Weiß wegen des Termins.")
    assert expert == "letters"
    assert 0.5 < confidence <= 1


def test_everyday_prompts_go_to_none(router):
    none = [router.route(prompt).expert is None for prompt in everyday_prompts("test")]
    assert sum(none) >= 90


def test_the_everyday_prompts_that_are_measured_are_not_learnt_from():
    assert not set(everyday_prompts("train")) & set(everyday_prompts("test"))
    assert len(everyday_prompts("test")) == 100


@pytest.mark.parametrize("prompt", ["", " \n\t", "\x00", "👍", "ok", "\ud800 half of a pair", "\u202e"])
def test_odd_prompts_are_for_none(router, prompt):
    assert router.route(prompt).expert is None


def test_prompts_in_languages_that_no_expert_knows_are_for_none(router):
    for prompt in (
        "Πού είναι η βιβλιοθήκη;",
        "図書館はどこですか?",
        "Unde este biblioteca?",
        "איפה הספרייה?",
    ):
        assert router.route(prompt).expert is None, prompt


def test_of_a_long_prompt_only_both_ends_are_read(router):
    question = "CREATE TABLE boats (id INT, length INT);\nList the length of boats above 7."
    filler = "lorem ipsum dolor " * 2_000_000
    ends = features(question + filler + question)
    assert (ends == features(question + filler[: 10 * LONGEST] + filler[-10 * LONGEST :] + question)).all()
    assert router.route(SQL[0] * 100).expert == "sql"


def test_a_shelf_of_one_still_has_none():
    router = Router.learn([Examples("sql", SQL)])
    assert router.route(SQL[3]).expert == "sql"
    assert router.route("What is the capital of Norway?").expert is None


def test_an_expert_for_one_kind_of_everyday_questions_gets_them():
    router = Router.learn([Examples("cook", COOK), Examples("sql", SQL)])
    own = [
        router.route(f"How do I cook a {style} {dish}?").expert
        for style in ("cheap", "warm")
        for dish in DISHES
    ]
    assert own.count("cook") >= 0.9 * len(own)
    assert router.route("Write a poem about the moon.").expert is None


def test_experts_with_the_same_rows_share_the_confidence():
    route = Router.learn([Examples("one", SQL), Examples("two", SQL)]).route(SQL[0])
    assert route.expert in ("one", "two")
    assert route.confidence == pytest.approx(0.5, abs=0.05)


def test_few_rows_are_enough_to_start():
    router = Router.learn([Examples("sql", SQL[:1]), Examples("letters", GERMAN[:1])])
    assert router.route(SQL[0]).expert == "sql"
    assert router.route(GERMAN[0]).expert == "letters"


@pytest.mark.parametrize("prompts", [[], ["", "  "]])
def test_an_expert_without_prompts_is_refused_by_name(prompts):
    with pytest.raises(BadInput, match="empty has no row with a prompt"):
        Router.learn([Examples("sql", SQL), Examples("empty", prompts)])


def test_no_experts_and_two_of_one_name_are_refused():
    with pytest.raises(BadInput, match="no expert"):
        Router.learn([])
    with pytest.raises(BadInput, match="named sql"):
        Router.learn([Examples("sql", SQL), Examples("sql", GERMAN)])


def test_a_keyword_decides_where_the_rows_do_not():
    prompt = "Which invoices did Ada write?"
    shelf = [Examples("sql", SQL), Examples("letters", GERMAN)]
    plain = Router.learn(shelf)
    assert plain.route(prompt).expert is None
    hinted = Router.learn([shelf[0], Examples("letters", GERMAN, keywords=("Invoices",))])
    chance = hinted.route(prompt)
    assert chance != plain.route(prompt)
    # Part of a word is not the keyword.
    assert hinted.route("Which reinvoicesque did Ada write?") == plain.route(
        "Which reinvoicesque did Ada write?"
    )


def test_a_keyword_does_not_overrule_a_clear_prompt_and_an_excluded_one_lowers_it():
    shelf = [Examples("sql", SQL), Examples("letters", GERMAN, keywords=("create", "show"))]
    assert Router.learn(shelf).route(SQL[7]).expert == "sql"
    question = "Show the price of boats."
    before = Router.learn([Examples("sql", SQL)]).route(question)
    after = Router.learn([Examples("sql", SQL, exclude_keywords=("show the price",))]).route(question)
    assert before.expert == "sql"
    assert after.expert is None or after.confidence < before.confidence


def test_a_saved_router_routes_the_same(router, tmp_path):
    path = tmp_path / "folder" / "router.safetensors"
    router.save(path)
    loaded = Router.load(path)
    assert loaded is not None
    for prompt in [*SQL[:5], *GERMAN[:5], *everyday_prompts("test")[:5]]:
        assert loaded.route(prompt) == router.route(prompt)
    assert [it.name for it in path.parent.iterdir()] == [path.name]


def test_the_same_rows_give_the_same_bytes(tmp_path):
    many = [f"{prompt} Limit {number}." for prompt in SQL for number in range(8)]
    for name in ("a", "b"):
        Router.learn([Examples("sql", many), Examples("letters", GERMAN)]).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_damaged_file_is_not_loaded(router, tmp_path):
    path = tmp_path / "router.safetensors"
    assert Router.load(path) is None
    router.save(path)
    whole = path.read_bytes()
    for content in (
        b"",
        b"{}",
        whole[:100],
        whole[:-1],
        whole.replace(b'"version', b'"verxion'),
        whole + b"x",
    ):
        path.write_bytes(content)
        assert Router.load(path) is None, content[:20]
    path.write_bytes(whole)
    assert Router.load(path) is not None


def test_kinds_of_rows_that_alternate_in_the_file_are_all_learnt():
    """A generator writes its kinds in turn; rows at even distances would be of one kind."""
    kinds = (
        [f"Wie viel kostet {n}?" for n in range(600)],
        [f"Sort the list of {n} words." for n in range(600)],
    )
    both = [prompt for pair in zip(*kinds, strict=True) for prompt in pair]
    router = Router.learn([Examples("mixed", both), Examples("sql", SQL)])
    for prompt in ("Wie viel kostet 5000?", "Sort the list of 5000 words."):
        assert router.route(prompt).expert == "mixed"
