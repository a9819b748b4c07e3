"""Names of people, firms and places: those of training, and others for validation and test."""

from __future__ import annotations

from collections.abc import Mapping

_TRAIN = """
first: Ada Bruno Carla Dmitri Elena Farid Greta Hugo Ines Jonas Kira Luis Mona Nils Olga Pavel Rosa Sven Tara Uma Aisha Ben Chen Diego Emil Fatima Georg Helen Igor Julia Kofi Lena Mateo Nora Omar Petra Quinn Rami Sofia Tom Vera Wei Yara Zoe José Zoë Anaïs Jürgen
last: Lopez Meyer Tanaka Rossi Novak Okafor Silva Khan Berg Dubois Costa Weber Haddad Moreau Sato Lind Popov Garcia Park Adler Nowak Reyes Schmidt Torres Walsh Young Fischer Bauer Conti Ekholm Müller Núñez O'Neill Kowalczyk
company: Acorn Ltd|Bluefin GmbH|Cobalt Inc|Delta Foods|Everpine|Fox & Sons|Granite Works|Helio Labs|Iris Media|Juniper Bank|Kestrel Air|Lumen AG|Maple Street Co|Nimbus|Orbit Steel|Pebble Soft
city: Berlin|Rome|Oslo|Lima|Porto|Madrid|Vienna|Quito|Dublin|Prague|Lyon|Boston|Cairo|Osaka|Denver|Nairobi|Kraków|Leeds|Antwerp|São Paulo|New York|Zürich
country: Spain|Kenya|Chile|Japan|Norway|Italy|Canada|Poland|Ghana|Peru|Austria|India|Mexico|Greece
street: 12 Mill Road|5 Elm Street|88 Harbour Way|3 King Lane|41 Station Street|7 Church Row|19 Oak Avenue|230 Hill Street|64 River Walk|15 Market Square
mailhost: example.com|mail.org|post.net|acme.io|inbox.dev
domain: shop.example.com|api.acme.io|blog.example.org|cdn.post.net|intra.mail.org|docs.acme.io
"""

_HELD = """
first: Amara Bilal Chloe Darya Emeka Freya Goran Hana Imani Jamal Katya Leila Marek Noor Oskar Priya Ravi Selma Tariq Ursula Viktor Wanda Renée Søren
last: Abara Brandt Cheng Duarte Engel Ferrari Gruber Hassan Ivanov Jansen Kovac Larsen Mbeki Nakamura Olsen Petrov Romero Steiner García Åberg
company: Altair Group|Birch & Co|Copperline|Driftwood Ltd|Emberly|Fjord Tech|Glasshouse|Harvest Union
city: Lisbon|Tallinn|Seville|Gdansk|Toronto|Perth|Bergen|Turin|Accra|Kyoto|Bristol|Graz|Málaga|Cape Town
country: Portugal|Estonia|Vietnam|Sweden|Brazil|Morocco|Ireland|Nepal
street: 9 Willow Close|27 Canal Street|102 Abbey Road|6 Orchard Lane|33 Castle Street|71 Bridge Row
mailhost: sample.net|letters.io|firm.co|webpost.org
domain: store.sample.net|app.firm.co|news.webpost.org|media.letters.io
"""


def _read(text: str) -> Mapping[str, tuple[str, ...]]:
    found = {}
    for line in text.strip().splitlines():
        name, _, words = line.partition(": ")
        found[name] = tuple(words.split("|") if "|" in words else words.split(" "))
    return found


TRAIN, HELD = _read(_TRAIN), _read(_HELD)


def pools(split: str) -> Mapping[str, tuple[str, ...]]:
    return TRAIN if split == "train" else HELD
