"""The worlds that questions are asked about. Test and validation worlds share no table and no name with training's.

One line a world, tables apart by `;`. A table is `plural/singular > parent: columns`, a column
`name=how people call it kind`: `@` a name from the list, `a|b|c` a category, `1-90` a number, `date` a day;
a `?` at the end may be NULL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw

PEOPLE = "Ada Bruno Carla Dmitri Elena Farid Greta Hugo Ines Jonas Kira Luis Mona Nils Olga Pavel Rosa Sven Tara Uma"
THINGS = "Alder Birch Cedar Dune Ember Fjord Gale Harbor Iris Juniper Kestrel Lotus Maple North Onyx Pine Quartz Reed"
NEW_PEOPLE = (
    "Amara Bilal Chloe Darya Emeka Freya Goran Hana Imani Jamal Katya Leila Marek Noor Oskar Priya Ravi Selma"
)
NEW_THINGS = (
    "Argo Borealis Comet Delta Echo Falcon Glacier Halo Indigo Jade Krypton Lumen Mesa Nova Orbit Prism Rune"
)

TRAIN = """
customers/customer: name @people, city Berlin|Rome|Oslo|Lima|Cairo, joined date, credit=credit limit 10-900; \
orders/order > customers: status open|paid|sent|returned, total 5-950, placed_on=order date date, note gift|fragile|rush?
employees/employee: name @people, department Sales|Legal|Finance|Support, salary 1200-9000, hired_on=hiring date date; \
leaves/leave > employees: kind sick|holiday|parental, days 1-90, begins=first day date
authors/author: name @people, country France|Japan|Brazil|Kenya, birth_year 1900-1999; \
books/book > authors: title @things, genre crime|poetry|history|fantasy, pages 60-900, published date, price 4-80?
teachers/teacher: name @people, subject Math|Biology|Music|Latin, experience 1-40; \
courses/course > teachers: title @things, room A1|B2|C3|D4?, hours 10-120, starts=start date date
doctors/doctor: name @people, specialty heart|skin|eyes|bones, fee 30-400; \
visits/visit > doctors: reason checkup|pain|injury|vaccine, minutes 5-120, visit_day date, result good|bad|unclear?
hotels/hotel: name @things, city Paris|Madrid|Vienna|Dublin, stars 1-60, opened date; \
bookings/booking > hotels: guest @people, room_type single|double|suite, nights 1-60, arrival date
teams/team: name @things, league gold|silver|bronze, founded=founding year 1900-2020; \
players/player > teams: name @people, position keeper|defender|striker, goals 0-90, signed_on=signing date date?
warehouses/warehouse: name @things, region north|south|east|west, capacity 100-9000; \
parcels/parcel > warehouses: carrier Swift|Atlas|Comet, weight 1-300, received date, priority low|normal|high?
airlines/airline: name @things, alliance Star|Sky|One?, fleet_size=fleet size 5-400; \
flights/flight > airlines: origin Delhi|Tokyo|Boston|Lagos, distance 100-9000, departure date, delay 0-300?
farms/farm: name @things, county Kent|Devon|Essex|Dorset, acres 10-900; \
harvests/harvest > farms: crop wheat|corn|barley|oats, tons 1-400, harvested=harvest date date, quality A|B|C
museums/museum: name @things, city Milan|Prague|Athens|Lisbon, visitors=yearly visitors 900-9900; \
paintings/painting > museums: title @things, style baroque|cubist|modern, year_made=year 1500-1990, acquired=acquisition date date?
accounts/account: owner @people, kind checking|savings|business, balance 10-9900, opened_on=opening date date; \
payments/payment > accounts: method card|cash|wire, amount 1-990, paid_on=payment date date, category food|rent|travel?
projects/project: title @things, phase design|build|test|done, budget 500-9900, deadline date; \
tasks/task > projects: assignee @people, state todo|doing|closed, effort 1-160, due=due date date
artists/artist: name @people, genre jazz|rock|folk|soul, followers 100-9900; \
albums/album > artists: title @things, label Decca|Verve|Motown?, tracks 4-60, released=release date date
schools/school: name @things, district Hill|Lake|Park|Bay, pupils 80-1900; \
trips/trip > schools: destination zoo|museum|beach|forest, cost 20-900, trip_day date, transport bus|train|boat?
suppliers/supplier: name @things, country Italy|India|Chile|Norway, rating 1-99; \
products/product > suppliers: label @things, category tools|toys|garden|office, price 2-600, added=day added date, stock 0-500?
clinics/clinic: name @things, town Bath|York|Leeds|Derby, beds 5-300; \
patients/patient > clinics: name @people, blood_type=blood type A|B|AB|O, age 1-99, admitted=admission date date, ward red|blue|green?
libraries/library: name @things, borough Queens|Bronx|Harlem, shelves 20-900; \
loans/loan > libraries: reader @people, medium book|disc|map, loan_days 1-90, lent=lending date date, fine 1-60?
races/race: title @things, surface road|trail|track, distance 1-200, race_day date; \
runners/runner > races: name @people, club Harriers|Striders|Milers?, finish=finish time 10-600, age 16-80
kennels/kennel: name @things, village Ash|Elm|Oak|Yew, places 4-90; \
dogs/dog > kennels: name @people, breed collie|poodle|beagle, weight 2-80, born=birth date date, color black|brown|white?
cinemas/cinema: name @things, city Leeds|Turin|Malmo|Porto, seats 60-900; \
screenings/screening > cinemas: film @things, language English|French|Korean, tickets=tickets sold 5-800, shown_on=screening date date
factories/factory: name @things, sector steel|paper|glass|food, workers 20-4000; \
machines/machine > factories: model @things, status running|idle|broken, power 50-900, installed=installation date date?
"""

# Columns that training tables are varied with.
SPARE = """
weight 2-300, depth 3-900, width 10-400, speed 20-320, temperature 1-90, profit 10-9900, loss 5-800, votes 3-4000, bonus 10-900, \
mileage 100-9900, pressure 10-700, voltage 5-480, humidity 1-99, population 90-9900, debt 10-5000, levels 1-60, lives 1-90, coins 5-990, \
pixels 100-4000, calories 20-1900, wheels 2-60, visits 1-700, clicks 10-9000, rainfall 5-800, frequency 20-900, memory 4-512, discount 1-70, \
tax 2-400, rent 90-3900, wage 10-250, attempts 1-80, floors 1-90, rooms 1-400, windows 2-200, kilometers 5-900, deposit 10-2000, \
color red|green|blue|white, shape round|square|flat, material wood|iron|glass|wool, language Dutch|Hindi|Arabic|Swedish?, brand Acme|Zenith|Orion, \
mood calm|happy|angry, season spring|summer|autumn|winter, climate dry|mild|wet, size small|medium|large, direction left|right|straight, \
currency euro|dollar|yen?, texture smooth|rough|soft, rank private|captain|major, taste sweet|sour|bitter|salty, weekday Monday|Friday|Sunday, \
browser Firefox|Chrome|Safari, planet Mars|Venus|Saturn, payment_method=way of paying cash|card|check, fuel petrol|diesel|electric, \
family_status=status at home single|married|divorced?, created_at=creation date date, updated_at=day of the last change date, sent_on=sending date date, \
expires date, birthday date, checked=inspection date date?, delivered=delivery date date, ends=last day date, voted_on=day of the vote date, \
finished_on=final day date?
"""
VARIANTS = 3

VALIDATION = """
breweries/brewery: name @things, county Cork|Mayo|Kerry|Sligo, output=yearly output 100-9000, licensed date; \
beers/beer > breweries: label @things, type lager|stout|ale, strength 20-120, brewed=brewing date date, rating 1-99?
theaters/theater: name @things, quarter Old|New|Port|Mill, seats 50-2000; \
plays/play > theaters: title @things, genre drama|comedy|opera, length 40-240, premiere date, director @people
drivers/driver: name @people, license B|C|D, points=penalty points 0-60, registered date; \
rides/ride > drivers: zone center|airport|suburb, fare 4-300, ride_date date, tip 1-60?
nurseries/nursery: name @things, soil clay|sand|loam, area 10-900; \
plants/plant > nurseries: species @things, light sun|shade|half, height 5-400, planted=planting date date?
"""

TEST = """
ships/ship: name @things, flag Panama|Malta|Greece|Japan, tonnage 100-9900, launched=launch date date; \
cargoes/cargo > ships: content grain|coal|cars|timber, containers 1-600, loaded=loading date date, risk minor|major?
labs/lab: name @things, field optics|genetics|acoustics, grant_money=grant 100-9900; \
samples/sample > labs: scientist @people, substance water|blood|soil|oil, volume 1-500, taken=sampling date date, verdict pure|mixed?
gyms/gym: name @things, district Nord|Sud|Ost|West, area=floor area 80-2000, opened date; \
members/member > gyms: name @people, plan basic|plus|family, monthly_fee=monthly fee 10-190, joined_on=joining date date, trainer @people
insurers/insurer: name @things, branch life|motor|home, reserves 500-9900; \
claims/claim > insurers: claimant @people, stage filed|denied|settled, damage 10-9000, filed_on=filing date date, payout 5-8000?
wineries/winery: name @things, valley Napa|Douro|Maipo|Barossa, hectares 2-400; \
wines/wine > wineries: label @things, grape merlot|malbec|syrah, vintage 1950-2022, bottled=bottling date date, score 50-100?
observatories/observatory: name @things, peak Teide|Elgon|Fuji, altitude 800-5000; \
sightings/sighting > observatories: astronomer @people, object_type comet|nebula|pulsar, brightness 1-300, seen_on=sighting date date
agencies/agency: name @things, market Asia|Europe|Africa, staff 3-900; \
campaigns/campaign > agencies: slogan @things, channel radio|print|web, spending 10-9900, launched_on=launch day date, reach 100-9900?
"""

WORDS = {"train": (PEOPLE, THINGS), "validation": (NEW_PEOPLE, NEW_THINGS), "test": (NEW_PEOPLE, NEW_THINGS)}


@dataclass(frozen=True)
class Column:
    name: str
    phrase: str
    spec: list[Any]

    @property
    def kind(self) -> str:
        return str(self.spec[1])

    @property
    def nullable(self) -> bool:
        return self.spec[-1] is True


@dataclass(frozen=True)
class Table:
    name: str
    noun: str
    parent: str | None
    columns: tuple[Column, ...]

    def of_kind(self, *kinds: str) -> list[Column]:
        return [column for column in self.columns if column.kind in kinds]


@dataclass(frozen=True)
class World:
    parent: Table
    child: Table


def worlds(split: str) -> list[World]:
    text = {"train": TRAIN, "validation": VALIDATION, "test": TEST}[split]
    people, things = WORDS[split]
    lists = {"people": people.split(), "things": things.split()}
    found = [_world(line, lists) for line in text.strip().splitlines()]
    return [*found, *(other for world in found for other in _variants(world))] if split == "train" else found


def _variants(world: World) -> list[World]:
    """The same tables with other columns: who has seen few names learns them by heart and copies none."""
    draws = [Draw(f"columns/{world.parent.name}/{place}") for place in range(VARIANTS)]
    return [World(_varied(world.parent, draw), _varied(world.child, draw)) for draw in draws]


def _varied(table: Table, draw: Draw) -> Table:
    spare = draw.shuffled([_column(part, {}) for part in SPARE.strip().split(", ")])
    columns: list[Column] = []
    for column in table.columns:
        fitting = [other for other in spare if other.kind == column.kind and other not in columns]
        columns.append(fitting[0] if fitting and draw.chance(0.75) else column)
    return Table(table.name, table.noun, table.parent, tuple(columns))


def _world(line: str, lists: dict[str, list[str]]) -> World:
    parent, child = (_table(part, lists) for part in line.split("; "))
    return World(parent, child)


def _table(text: str, lists: dict[str, list[str]]) -> Table:
    head, body = text.split(": ", 1)
    names, _, parent = head.partition(" > ")
    plural, noun = names.split("/")
    return Table(plural, noun, parent or None, tuple(_column(part, lists) for part in body.split(", ")))


def _column(text: str, lists: dict[str, list[str]]) -> Column:
    label, kind = text.rsplit(" ", 1)
    name, _, phrase = label.partition("=")
    nullable = kind.endswith("?")
    kind = kind.rstrip("?")
    if kind.startswith("@"):
        spec: list[Any] = [name, "name", lists[kind[1:]]]
    elif kind == "date":
        spec = [name, "date", nullable]
    elif "|" in kind:
        spec = [name, "cat", kind.split("|"), nullable]
    else:
        low, high = kind.split("-")
        spec = [name, "int", int(low), int(high), nullable]
    return Column(name, phrase or name, spec)
