"""The graphs that questions are asked about. Test and validation graphs share no label and no type with training's.

One line a graph, its parts apart by ` | `: two kinds of node (`Label/plural: columns`), an edge from the first kind to the
second and one from the first kind to itself (`TYPE/how it is said: columns`). A column is as in expert-sql: `name @list`,
`name a|b|c` without spaces, `name 1-90`, `name date`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw

PEOPLE = [
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
]
THINGS = [
    "Alder",
    "Birch",
    "Cedar",
    "Dune",
    "Ember",
    "Fjord",
    "Gale",
    "Harbor",
    "Iris",
    "Juniper",
    "Kestrel",
    "Lotus",
    "Maple",
    "North",
    "Onyx",
    "Pine",
]
NEW_PEOPLE = [
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
]
NEW_THINGS = [
    "Argo",
    "Borealis",
    "Comet",
    "Delta",
    "Echo",
    "Falcon",
    "Glacier",
    "Halo",
    "Indigo",
    "Jade",
    "Krypton",
    "Lumen",
    "Mesa",
    "Nova",
    "Orbit",
    "Prism",
]

TRAIN = """
Person/people: name @people, age 18-90, job nurse|pilot|baker, born date | City/cities: name @things, size 10-900, country Spain|Kenya|Chile | LIVES_IN/live in: since 1960-2024 | KNOWS/know:
Author/authors: name @people, prizes 0-40, language French|Hindi|Dutch | Book/books: title @things, pages 60-900, genre crime|poetry|history, printed date | WROTE/wrote: year 1950-2024 | ADMIRES/admire:
Employee/employees: name @people, salary 900-9900, grade junior|senior|lead, hired date | Company/companies: name @things, staff 10-900, sector steel|food|media | WORKS_AT/work at: hours 5-60 | MANAGES/manage:
Actor/actors: name @people, fame 1-99, country Peru|Italy|Japan | Movie/movies: title @things, length 60-240, genre drama|comedy|horror, released date | ACTED_IN/acted in: fee 10-900 | MARRIED/married:
Student/students: name @people, points 1-300, subject Math|Biology|Music, enrolled date | Course/courses: title @things, hours 10-120, room A1|B2|C3 | ATTENDS/attend: grade 1-60 | HELPS/help:
Customer/customers: name @people, credit 10-900, tier gold|silver|basic, joined date | Product/products: name @things, price 1-600, category tools|toys|garden | BOUGHT/bought: amount 1-90 | REFERRED/referred:
Player/players: name @people, goals 0-90, position keeper|defender|striker | Team/teams: name @things, rank 1-60, league north|south|east | PLAYS_FOR/play for: matches 1-300 | REPLACED/replaced:
Airport/airports: name @things, runways 1-40, region Asia|Europe|Africa, opened date | Airline/airlines: name @people, planes 5-400, alliance Star|Sky|One | SERVES/serve: gates 1-60 | FLIES_TO/fly to:
Doctor/doctors: name @people, patients 5-600, specialty heart|skin|eyes | Hospital/hospitals: name @things, beds 20-900, town Bath|York|Leeds, founded date | PRACTICES_AT/practice at: shifts 1-40 | CONSULTS/consult:
Module/modules: name @things, lines 50-9900, state stable|beta|old, changed date | Developer/developers: name @people, commits 1-900, country India|Brazil|Poland | OWNED_BY/are owned by: weeks 1-90 | IMPORTS/import:
Chef/chefs: name @people, stars 0-30, style vegan|grill|sushi, trained date | Dish/dishes: name @things, price 3-90, course soup|main|dessert | COOKS/cook: times 1-300 | TAUGHT/taught:
Band/bands: name @things, fans 10-9900, genre jazz|rock|folk, founded date | Festival/festivals: name @people, visitors 100-9900, season spring|summer|autumn | PLAYED_AT/played at: minutes 20-180 | INSPIRED/inspired:
Farmer/farmers: name @people, acres 5-900, county Kent|Devon|Essex | Crop/crops: name @things, harvest 1-400, soil clay|sand|loam, sown date | GROWS/grow: tons 1-200 | SUPPLIES/supply:
Planet/planets: name @things, moons 0-90, kind rocky|gas|ice, found date | Probe/probes: name @people, mass 100-9900, agency ESA|NASA|ISRO | VISITED_BY/were visited by: days 1-900 | OUTSHINES/outshine:
"""

# Properties that training nodes are varied with.
SPARE = """
weight 2-300, speed 20-320, temperature 1-90, profit 10-9900, loss 5-800, votes 3-4000, bonus 10-900, width 10-400, \
mileage 100-9900, pressure 10-700, voltage 5-480, humidity 1-99, population 90-9900, debt 10-5000, levels 1-60, lives 1-90, coins 5-990, \
pixels 100-4000, calories 20-1900, wheels 2-60, clicks 10-9000, rainfall 5-800, frequency 20-900, memory 4-512, discount 1-70, \
rent 90-3900, wage 10-250, attempts 1-80, windows 2-200, kilometers 5-900, deposit 10-2000, balance 10-9900, signatures 2-700, \
color red|green|blue|white, shape round|square|flat, material wood|iron|glass|wool, brand Acme|Zenith|Orion, mood calm|happy|angry, \
climate dry|mild|wet, size small|medium|large, direction left|right|straight, currency euro|dollar|yen, taste sweet|sour|bitter|salty, \
weekday Monday|Friday|Sunday, browser Firefox|Chrome|Safari, payment cash|card|check, fuel petrol|diesel|electric, texture smooth|rough|soft, \
created date, updated date, sent date, expires date, birthday date, checked date, delivered date, closed date, elected date, finished date
"""
VARIANTS = 3

VALIDATION = """
Diver/divers: name @people, dives 1-900, badge open|rescue|master, certified date | Reef/reefs: name @things, depth 3-90, ocean Pacific|Indian|Atlantic | EXPLORED/explored: hours 1-300 | RESCUED/rescued:
Judge/judges: name @people, cases 1-900, court civil|labor|family, sworn date | Law/laws: title @things, articles 5-600, field tax|trade|work | APPLIES/apply: years 1-40 | OVERRULED/overruled:
Router/routers: name @things, ports 2-300, vendor Cisco|Juniper|Arista, bought date | Site/sites: name @people, floors 1-90, zone core|edge|lab | STANDS_IN/stand in: racks 1-60 | LINKS_TO/link to:
"""

TEST = """
Sailor/sailors: name @people, voyages 1-300, rank mate|captain|cook, enlisted date | Ship/ships: name @things, tonnage 100-9900, flag Malta|Panama|Norway | SAILED_ON/sailed on: months 1-90 | TRAINED_WITH/trained with:
Painter/painters: name @people, works 5-900, school cubist|baroque|modern | Gallery/galleries: name @things, rooms 2-90, quarter Old|New|Port, opened date | EXHIBITED_AT/exhibited at: pieces 1-60 | MENTORED/mentored:
Gene/genes: name @things, length 100-9900, strand plus|minus|both, mapped date | Disease/diseases: name @people, deaths 1-900, organ lung|heart|liver | CAUSES/cause: risk 1-99 | REGULATES/regulate:
Investor/investors: name @people, funds 10-9900, focus biotech|energy|space, started date | Startup/startups: name @things, founders 1-30, stage seed|growth|exit | BACKED/backed: millions 1-300 | ADVISES/advise:
Climber/climbers: name @people, summits 1-200, level novice|expert|guide | Peak/peaks: name @things, height 900-8800, range Alps|Andes|Tatra, climbed date | SCALED/scaled: days 1-60 | BELAYED/belayed:
"""


@dataclass(frozen=True)
class Column:
    name: str
    spec: list[Any]

    @property
    def kind(self) -> str:
        return str(self.spec[1])


@dataclass(frozen=True)
class Node:
    label: str
    plural: str
    columns: tuple[Column, ...]

    @property
    def noun(self) -> str:
        return self.label.lower()

    def of_kind(self, *kinds: str) -> list[Column]:
        return [column for column in self.columns if column.kind in kinds]


@dataclass(frozen=True)
class Edge:
    type: str
    said: str
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class World:
    start: Node
    end: Node
    link: Edge
    loop: Edge

    def described(self) -> dict[str, Any]:
        """As the scorer builds it."""
        nodes = [
            {"label": node.label, "count": count, "columns": [column.spec for column in node.columns]}
            for node, count in ((self.start, 14), (self.end, 6))
        ]
        edges = [
            {
                "type": edge.type,
                "from": self.start.label,
                "to": to.label,
                "columns": [column.spec for column in edge.columns],
            }
            for edge, to in ((self.link, self.end), (self.loop, self.start))
        ]
        return {"nodes": nodes, "edges": edges}

    @property
    def names(self) -> list[str]:
        return [self.start.label, self.end.label, self.link.type, self.loop.type]

    def schema(self, shown: set[str]) -> str:
        """As the model sees it: these kinds of nodes and edges."""
        lines = [f"(:{node.label} {_fields(node.columns)})" for node in (self.start, self.end)]
        for edge, to in ((self.link, self.end), (self.loop, self.start)):
            fields = _fields(edge.columns) if edge.columns else ""
            lines.append(f"(:{self.start.label})-[:{edge.type}{fields}]->(:{to.label})")
        return "\n".join(line for name, line in zip(self.names, lines, strict=True) if name in shown)


def _fields(columns: tuple[Column, ...]) -> str:
    """A name follows its brace or comma at once, as it follows a dot in a query: its tokens are the same in both."""
    types = {"name": "STRING", "cat": "STRING", "int": "INT", "date": "DATE"}
    return "{" + ",".join(f"{column.name}:{types[column.kind]}" for column in columns) + "}"


def worlds(split: str) -> list[World]:
    text = {"train": TRAIN, "validation": VALIDATION, "test": TEST}[split]
    lists = (
        {"people": PEOPLE, "things": THINGS}
        if split == "train"
        else {"people": NEW_PEOPLE, "things": NEW_THINGS}
    )
    found = [_world(line, lists) for line in text.strip().splitlines()]
    return [*found, *(other for world in found for other in _variants(world))] if split == "train" else found


def _variants(world: World) -> list[World]:
    """The same graph with other properties: who has seen few names learns them by heart and copies none."""
    draws = [Draw(f"columns/{world.start.label}/{place}") for place in range(VARIANTS)]
    return [replace(world, start=_varied(world.start, draw), end=_varied(world.end, draw)) for draw in draws]


def _varied(node: Node, draw: Draw) -> Node:
    spare = draw.shuffled([_column(part, {}) for part in SPARE.strip().split(", ")])
    columns: list[Column] = []
    for column in node.columns:
        fitting = [other for other in spare if other.kind == column.kind and other not in columns]
        columns.append(fitting[0] if fitting and draw.chance(0.75) else column)
    return replace(node, columns=tuple(columns))


def _world(line: str, lists: dict[str, list[str]]) -> World:
    start, end, link, loop = line.split(" | ")
    return World(_node(start, lists), _node(end, lists), _edge(link, lists), _edge(loop, lists))


def _node(text: str, lists: dict[str, list[str]]) -> Node:
    head, columns = text.split(": ")
    label, plural = head.split("/")
    return Node(label, plural, tuple(_column(part, lists) for part in columns.split(", ")))


def _edge(text: str, lists: dict[str, list[str]]) -> Edge:
    head, _, columns = text.partition(":")
    kind, said = head.split("/")
    return Edge(kind, said, tuple(_column(part, lists) for part in columns.strip().split(", ") if part))


def _column(text: str, lists: dict[str, list[str]]) -> Column:
    name, kind = text.split(" ")
    if kind.startswith("@"):
        return Column(name, [name, "name", lists[kind[1:]]])
    if kind == "date":
        return Column(name, [name, "date", False])
    if "|" in kind:
        return Column(name, [name, "cat", kind.split("|"), False])
    low, high = kind.split("-")
    return Column(name, [name, "int", int(low), int(high), False])
