"""Things that JSON is made about, each fact with its English. Test and validation things are none of training's.

One line a thing: `noun subject-key @names` and then facts, apart by `;`: `key kind how it is said`. A kind is `5-90` a
number, `x.x` a decimal, `a|b|c` one of few words, `bool` said as `yes text / no text`, `list:a|b|c` a list, `date` a day.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw

TRAIN_NAMES = [
    "Ada",
    "Bruno",
    "Carla",
    "Dmitri",
    "Elena",
    "Farid",
    "Greta",
    "Hugo",
    "Ines",
    "Jonas",
    "Kira",
    "Luis",
    "Mona",
    "Nils",
    "Olga",
    "Pavel",
    "Rosa",
    "Sven",
    "Tara",
    "Uma",
]
HELD_NAMES = [
    "Amara",
    "Bilal",
    "Chloe",
    "Darya",
    "Emeka",
    "Freya",
    "Goran",
    "Hana",
    "Imani",
    "Jamal",
    "Katya",
    "Leila",
    "Marek",
    "Noor",
    "Oskar",
    "Priya",
    "Ravi",
    "Selma",
]

TRAIN = """
person name; age 18-90 is {v} years old; city Berlin|Rome|Oslo|Lima lives in {v}; job nurse|pilot|baker|judge works as a {v}; married bool is married / is not married; hobbies list:chess|golf|yoga|poker likes {v}; height 140-210 is {v} cm tall
book title; pages 80-900 has {v} pages; genre crime|poetry|history is a {v} book; price x.x costs {v} euros; in_print bool is in print / is out of print; authors list:Kant|Woolf|Borges|Sagan was written by {v}; year 1900-2024 appeared in {v}
car model; seats 2-9 has {v} seats; color red|blue|black|white is {v}; fuel petrol|diesel|hydrogen runs on {v}; electric bool is electric / is not electric; mileage 10-990 has driven {v} thousand km; extras list:radio|heater|camera comes with {v}
hotel name; stars 1-5 has {v} stars; town Paris|Madrid|Vienna stands in {v}; pool bool has a pool / has no pool; rooms 8-400 has {v} rooms; rate x.x charges {v} dollars a night; services list:spa|bar|gym offers {v}
dog name; breed collie|poodle|beagle is a {v}; weight 3-70 weighs {v} kg; vaccinated bool is vaccinated / is not vaccinated; tricks list:sit|roll|fetch can {v}; born date was born on {v}; color brown|grey|golden has {v} fur
phone model; storage 32-900 stores {v} GB; brand Nokia|Sony|Fairphone is made by {v}; dual_sim bool takes two SIM cards / takes one SIM card; price x.x costs {v} dollars; ports list:usb|jack|hdmi has ports for {v}; released date came out on {v}
team name; players 11-40 has {v} players; sport rugby|hockey|tennis plays {v}; champion bool is the champion / is not the champion; wins 1-60 won {v} games; colors list:red|green|blue|white wears {v}; coach Meyer|Rossi|Tanaka is coached by {v}
song title; seconds 60-600 lasts {v} seconds; style jazz|rock|folk|soul is a {v} song; live bool was recorded live / was recorded in a studio; plays 10-9000 was played {v} times; singers list:Nina|Otis|Edith was sung by {v}; released date came out on {v}
city name; people 5-900 has {v} thousand people; country Spain|Kenya|Chile|Japan lies in {v}; capital bool is a capital / is no capital; rivers list:Ebro|Tana|Loa lies on {v}; founded 800-1950 was founded in {v}; climate dry|mild|wet has a {v} climate
server host; cores 2-96 has {v} cores; region north|south|east runs in {v}; active bool is active / is down; load x.x has a load of {v}; services list:web|mail|cache runs {v}; memory 4-512 has {v} GB of memory
recipe title; minutes 5-180 takes {v} minutes; course soup|main|dessert is a {v}; vegan bool is vegan / is not vegan; portions 1-12 serves {v}; ingredients list:rice|beans|tofu|lemon needs {v}; level easy|medium|hard is {v} to cook
movie title; minutes 70-220 runs {v} minutes; genre drama|comedy|horror is a {v}; subtitled bool has subtitles / has no subtitles; rating x.x is rated {v}; cast list:Garbo|Bogart|Loren stars {v}; year 1930-2024 was shot in {v}
order code; items 1-60 has {v} items; status open|paid|sent is {v}; gift bool is a gift / is no gift; total x.x totals {v} euros; labels list:fragile|cold|heavy is marked {v}; placed date was placed on {v}
plant name; height 5-400 is {v} cm tall; light sun|shade|dusk needs {v}; edible bool is edible / is not edible; price x.x costs {v} euros; colors list:pink|white|violet blooms in {v}; planted date was planted on {v}
"""

VALIDATION = """
museum name; halls 2-60 has {v} halls; town Milan|Prague|Athens stands in {v}; free bool is free / is not free; visitors 10-900 had {v} thousand visitors; styles list:baroque|cubist|modern shows {v}; opened date opened on {v}
boat name; berths 1-40 has {v} berths; harbor Cork|Split|Malmo lies in {v}; rented bool is rented out / is free to rent; length x.x is {v} meters long; gear list:radar|raft|anchor carries {v}; built 1950-2023 was built in {v}
lecture topic; seats 20-600 has {v} seats; room A1|B2|C3 is held in {v}; online bool is online / is on campus; fee x.x costs {v} euros; speakers list:Abel|Noether|Gauss is given by {v}; day date takes place on {v}
"""

TEST = """
satellite name; orbit 200-900 orbits at {v} km; owner ESA|NASA|ISRO|JAXA belongs to {v}; working bool is working / is silent; mass x.x weighs {v} tons; sensors list:laser|optics|sonar carries {v}; launched date was launched on {v}
vineyard name; hectares 2-300 covers {v} hectares; grape merlot|malbec|syrah grows {v}; organic bool is organic / is not organic; yield x.x yields {v} tons; tours list:tasting|cellar|harvest offers {v}; founded 1800-2015 was founded in {v}
patient name; age 1-99 is {v} years old; ward surgery|cardio|eyes lies in {v}; insured bool is insured / is not insured; fever x.x has a fever of {v}; allergies list:pollen|latex|nuts is allergic to {v}; admitted date was admitted on {v}
drone model; range 1-90 flies {v} km; maker Parrot|Skydio|Wingcopter is made by {v}; licensed bool is licensed / is not licensed; price x.x costs {v} dollars; parts list:lens|rotor|skid comes with {v}; tested date was tested on {v}
bridge name; length 50-900 is {v} m long; kind arch|beam|cable is a {v} bridge; toll bool takes a toll / takes no toll; load x.x bears {v} tons; lanes list:cars|bikes|trams carries {v}; opened date opened on {v}
"""


@dataclass(frozen=True)
class Fact:
    key: str
    kind: str
    said: str

    def draw(self, draw: Draw) -> Any:
        if self.kind == "bool":
            return draw.chance(0.5)
        if self.kind == "x.x":
            return draw.between(11, 999) / 10
        if self.kind == "date":
            return f"20{draw.between(10, 24)}-{draw.between(1, 12):02d}-{draw.between(1, 28):02d}"
        if self.kind.startswith("list:"):
            words = self.kind[5:].split("|")
            return draw.some(words, draw.between(2, min(3, len(words))))
        if "|" in self.kind:
            return draw.one(self.kind.split("|"))
        low, high = self.kind.split("-")
        return draw.between(int(low), int(high))

    def say(self, value: Any) -> str:
        if isinstance(value, bool):
            return self.said.split(" / ")[0 if value else 1]
        text = " and ".join(value) if isinstance(value, list) else str(value)
        return self.said.replace("{v}", text)


@dataclass(frozen=True)
class Entity:
    noun: str
    subject: str
    facts: tuple[Fact, ...]
    names: tuple[str, ...]

    def some(self, draw: Draw, count: int, *, lists: bool = True) -> list[Fact]:
        usable = [fact for fact in self.facts if lists or not fact.kind.startswith("list:")]
        return draw.some(usable, count)

    def record(self, draw: Draw, facts: list[Fact]) -> dict[str, Any]:
        return {self.subject: draw.one(self.names), **{fact.key: fact.draw(draw) for fact in facts}}


def entities(split: str) -> list[Entity]:
    text = {"train": TRAIN, "validation": VALIDATION, "test": TEST}[split]
    names = tuple(TRAIN_NAMES if split == "train" else HELD_NAMES)
    return [_entity(line, names) for line in text.strip().splitlines()]


def _entity(line: str, names: tuple[str, ...]) -> Entity:
    head, *facts = line.split("; ")
    noun, subject = head.split(" ")
    return Entity(noun, subject, tuple(Fact(*fact.split(" ", 2)) for fact in facts), names)


def sentence(entity: Entity, record: dict[str, Any], facts: list[Fact]) -> str:
    said = [fact.say(record[fact.key]) for fact in facts]
    return f"{record[entity.subject]} {joined(said)}."


def keys_said(keys: list[str]) -> str:
    """Keys as they are quoted in JSON: so that a model copies them instead of spelling them again."""
    return joined([quoted([key]) for key in keys])


def quoted(words: list[str]) -> str:
    return ", ".join(f'"{word}"' for word in words)


def joined(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
