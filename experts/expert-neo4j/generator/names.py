"""Names that nodes carry. Training's names are made of other words than those of validation and test."""

from __future__ import annotations

from collections.abc import Callable

from expert_worker.evaluate.authoring.draw import Draw

# Each list: training's words first, then a bar, then the other splits' words.
WORDS = {
    "first": """Ada Bruno Carla Dmitri Elena Farid Greta Hugo Ines Jonas Kira Luis Mona Nils Olga Pavel Rosa Sven Tara Uwe Vera
        Walid Yara Zoe Anton Bella Cesar Dina Emil Fiona Gustav Helga Ivan Judith Karim Lena Mateo Nadia Omar Paula Quentin Rania
        Simon Tilda Umar Viktor Wanda Ximena Yusuf Zara Aisha Boris Clara Diego Esther Felix Gloria Henry Irene Jack Kofi Laura
        | Amara Bilal Chloe Darya Emeka Freya Goran Hana Imani Jamal Katya Leila Marek Noor Oskar Priya Raul Sofia Tomas Ulla
        Vikram Wilma Xavier Yuki Zahra Agnes Basil Cora Dario Elif""",
    "last": """Stone Berger Costa Dahl Evans Ferrari Gupta Hansen Ito Jansen Kowalski Lopez Meyer Novak Okafor Petrov Quinn Rossi
        Silva Tanaka Ueda Varga Weber Yilmaz Zimmer Adams Brandt Chen Duarte Ek Fischer Garcia Haas Ivanova Jones Klein Larsen
        Moreau Nagy Olsen Park Reyes Schmidt Torres Urban Vidal Wolf Young Ziegler Abbott Blanc Cruz Dunn Egan Flores
        | Acosta Banerjee Carver Diallo Engel Fontaine Grant Holm Ibrahim Jung Kaur Lindgren Mbeki Nolan Osei Pratt Ramos Sato
        Toure Usman Vogel Walsh Xu York Zamora""",
    "adjective": """Silent Golden Last Broken Hidden Long Blue Distant Empty Wild Second Cold Burning Quiet Bitter Lost Paper Red
        Ancient Hollow Little Early Final Bright Slow Open Secret Winter Northern Sweet
        | Velvet Restless Crooked Pale Forgotten Iron Gentle Seventh Stormy Scarlet Borrowed Endless""",
    "noun": """River Garden Letter Mirror Harbor Road Summer Forest Island Promise Window Night Orchard Signal Circle Kingdom Map
        Lantern Voice Machine Storm Market Crown Shadow Journey Song Bridge Tower Morning Desert
        | Comet Anchor Riddle Feather Compass Valley Thread Echo Candle Feast Ladder Tide""",
    "city": """Porto Leeds Oslo Lima Kyoto Ghent Turin Bergen Cardiff Denver Essen Florence Geneva Hanoi Izmir Jakarta Kazan Lyon
        Malaga Nantes Odessa Prague Quito Riga Seville Tampa Utrecht Verona Warsaw Zagreb Austin Basel Cork Dakar
        | Aarhus Bilbao Cusco Davos Edessa Fargo Gdansk Havana Incheon Jaipur Kigali Lucca Mostar Nagoya Oviedo Perth""",
    "country": """Spain Kenya Chile Japan Norway Portugal Canada Greece Austria Bolivia Croatia Denmark Egypt Finland Ghana Hungary
        India Jordan Latvia Mexico Nepal Oman Peru Qatar Rwanda Senegal Tunisia Uganda
        | Albania Brazil Cuba Ecuador Fiji Georgia Iceland Jamaica Laos Malta Nigeria Panama Serbia Togo Vietnam Zambia""",
    "firm": """Acorn Vertex Bluebird Cobalt Summit Harvest Lumen Maple Orchid Pioneer Quartz Redwood Saffron Tundra Umbra Vista
        Willow Zephyr Anchor Beacon Cascade Dynamo Evergreen Falcon Granite Horizon
        | Argo Borealis Citadel Drift Elixir Fathom Gondola Heron Ivory Jasper Keystone Lattice""",
    "trade": """Labs Foods Works Group Media Partners Systems Energy Trading Logistics Studios Industries Books Motors
        | Holdings Ventures Bureau Collective Union Trust Makers Agency""",
    "hill": """Elm North Stone Silver Mill Fox Raven Cedar Sunset Eagle King Oak Clear Moss Long White Thunder Amber Bear Crystal
        Birch Copper Willow Salt Rose Hazel Wind Otter
        | Juniper Cobble Heather Badger Flint Lark Saddle Twin Marsh Ember Thistle Crow""",
    "place": """Hill Ridge Bay Creek Park Point Field Valley Rock Bend Gate House Court Lane Falls Grove
        | Hollow Pass Cove Heath Landing Spur Moor Terrace""",
    "object": """Lamp Chair Basket Kettle Drum Blanket Hammer Clock Bowl Mask Wheel Bottle Scarf Brush Ladder Torch Vase Whistle
        Pepper Almond Ginger Clover Daisy Cherry Mango Lemon Walnut Barley
        | Pendant Goblet Saddle Quill Lute Tankard Nutmeg Poppy Quince Sorrel Tulip Fig""",
    "animal": """Falcon Otter Panther Badger Heron Lynx Cobra Raven Bison Gecko Moose Puffin Salmon Toad Viper Walrus Yak Zebra
        Beaver Condor Dingo Egret Ferret Gibbon Hyena Ibis Jackal Koala Lemur Marmot
        | Albatross Bobcat Coyote Dolphin Ermine Flamingo Gazelle Hornet Iguana Jaguar Kestrel Lobster Mantis Narwhal Ocelot Pelican""",
    "slug": """auth billing search parser cache router mailer worker gateway planner importer signer crawler indexer logger mapper
        notifier uploader renderer scheduler session shipping pricing catalog metrics tracker
        | beacon courier dispatcher emitter formatter harvester injector janitor kernel loader monitor nester""",
    "star": """Altair Bellatrix Capella Deneb Electra Fomalhaut Gacrux Hadar Izar Kochab Lesath Mirach Naos Polaris Regulus Sirius
        Tarazed Vega Wezen Zosma Alcor Castor Rigel Spica
        | Atria Bharani Diadem Enif Furud Homam Kitalpha Lich Merope Nashira Okab Phact Rasalas Sabik Talitha Unuk""",
}
COUNT = 15
Maker = Callable[[dict[str, list[str]], Draw], str]


def _pair(first: str, second: str) -> Maker:
    return lambda words, draw: f"{draw.one(words[first])} {draw.one(words[second])}"


def _single(kind: str) -> Maker:
    return lambda words, draw: draw.one(words[kind])


def _code(_: dict[str, list[str]], draw: Draw) -> str:
    letters = "".join(draw.one("ABCDEFGHJKLMNPRSTUVWXZ") for _ in range(2))
    return f"{letters}-{draw.between(10, 999)}"


def _title(words: dict[str, list[str]], draw: Draw) -> str:
    form = draw.one(["The {a} {n}", "{a} {n}", "{a} {n}", "{n} of the {m}", "A {a} {n}"])
    adjective = draw.one([word for word in words["adjective"] if word[0] not in "AEIOU"])
    return form.format(a=adjective, n=draw.one(words["noun"]), m=draw.one(words["noun"]))


MAKERS: dict[str, Maker] = {
    "person": _pair("first", "last"),
    "first": _single("first"),
    "last": _single("last"),
    "title": _title,
    "city": _single("city"),
    "country": _single("country"),
    "company": _pair("firm", "trade"),
    "place": _pair("hill", "place"),
    "thing": _pair("adjective", "object"),
    "team": _pair("city", "animal"),
    "animal": _pair("adjective", "animal"),
    "star": _single("star"),
    "slug": lambda words, draw: f"{draw.one(words['slug'])}-{draw.one(words['slug'])}",
    "handle": lambda words, draw: f"{draw.one(words['first']).lower()}{draw.between(1, 99)}",
    "code": _code,
}


def names(kind: str, split: str, draw: Draw) -> list[str]:
    """Different names of a kind, in the words of the split."""
    half = 0 if split == "train" else 1
    words = {key: text.split("|")[half].split() for key, text in WORDS.items()}
    found: dict[str, None] = {}
    # A list with fewer names than wanted ends the loop, not the run.
    for _ in range(COUNT * 20):
        found.setdefault(MAKERS[kind](words, draw))
        if len(found) == COUNT:
            break
    return list(found)
