"""Names of people, places and things. Held-out splits have other names than training."""

from __future__ import annotations

from expert_worker.evaluate.authoring.draw import Draw

FIRST = (
    "Ada Bruno Carla Dmitri Elena Farid Greta Hugo Ines Jonas Kira Luis Mona Nils Olga Pavel Rosa Sven Tara Uma "
    "Victor Wanda Yusuf Zoe Anton Bella Cyrus Dora Edgar Fatima Gus Helen Ivan Julia Karim Lena",
    "Amara Bilal Chloe Darya Emeka Freya Goran Hana Imani Jamal Katya Leila Marek Noor Oskar Priya Ravi Selma "
    "Tomas Ulla Viggo Wendy Xenia Yara Zane Alba",
)
LAST = (
    "Adler Bianchi Costa Duarte Egger Fischer Garcia Haas Ivanov Jensen Kowalski Lindt Moreau Novak Olsen Petit "
    "Quinn Rossi Schmidt Torres Urban Vidal Weber Young Zimmer Baker Carter Dixon Ellis Foster",
    "Abbott Berger Cruz Dahl Emery Flores Grant Hoffman Ibsen Juarez Keller Lopes Mendez Nagy Okafor Park "
    "Ruiz Sato Tanaka Unger Varga Walsh Xu Zeman Alvarez Blom",
)
LEADS = (
    "Silver Golden Hidden Broken Quiet Northern Red Blue Lost Bright Old Wild Green Stone Winter Iron",
    "Amber Crimson Distant Empty Frozen Gentle Hollow Misty Noble Secret Velvet Wandering Ivory Copper",
)
BODIES = (
    "River Garden Harbor Mirror Tiger Forest Bridge Lantern Storm Valley Falcon Island Castle Meadow Comet Anchor",
    "Compass Desert Echo Feather Galaxy Horizon Jewel Kingdom Lagoon Monsoon Orchid Prairie Shadow Temple",
)
PLACES = (
    "Ashford Birchwood Clayton Dunmore Eastport Fairview Greenhill Highbury Ironbridge Jasper Kingsley Lakeside "
    "Millbrook Newhaven Oakfield Parkway Queensway Riverside Summerhill Thornton Underhill Valmont Westgate Yorkville "
    "Zeltweg Arden Belmont Corona",
    "Alderney Brackley Coldwater Deepdale Elmhurst Foxglove Glenrock Hartwell Inverness Juniper Kestrel Larkspur "
    "Moorland Nettleton Orchard Pinecrest Rosedale Stonehaven Tidewater Uplands Violet Wolfsburg Yarrow Zephyr Amberley Brookside",
)
FIRMS = (
    "Acorn Brightside Calypso Dynamo Evergreen Fulcrum Gravita Helix Innova Jupiter Keystone Lumina Meridian Nimbus "
    "Octagon Pinnacle Quantum Radiant Solaris Titan Unity Vertex Westwind Xenon Yield Zenith",
    "Argent Borealis Cobalt Delphi Equinox Firefly Granite Hyperion Ignite Jade Krypton Ledger Monarch Nova "
    "Opal Prisma Quasar Rhapsody Sterling Trident Umbra Vanguard Wavecrest Zircon Astra Beacon",
)
FORMS = ("Ltd", "GmbH", "Inc", "& Sons", "Group", "SA")
CITIES = (
    "Berlin|Rome|Oslo|Lima|Cairo|Porto|Lyon|Graz|Leeds|Turin|Malmo|Boston|Osaka|Dublin|Quito|Riga|Basel|Ghent|Cork|"
    "Nairobi|Toronto|Denver|Valencia|New York|Cape Town|Stuttgart|Bergen|Seattle",
    "Tallinn|Sofia|Bilbao|Krakow|Antwerp|Hanoi|Perth|Chicago|Lagos|Bern|Nice|Tampa|Kyoto|Buenos Aires|Aarhus|Trieste",
)
COUNTRIES = (
    "France|Japan|Brazil|Kenya|Italy|India|Chile|Norway|Spain|Canada|Germany|Egypt|Mexico|Poland|Sweden|Vietnam|"
    "Peru|Greece|Austria|South Korea|United Kingdom",
    "Portugal|Turkey|Ghana|Finland|Argentina|Ireland|Thailand|Belgium|Morocco|Denmark|New Zealand|Croatia",
)
BRANDS = (
    "Acme|Zenith|Orion|Bosko|Hallmar|Vektor|Tornado|Kirin|Lumax|Fabrio|Stella|Nordic",
    "Altura|Brivio|Castor|Duplex|Elmark|Fontis|Gemini|Helios",
)
JOBS = (
    "Data Analyst|Night Nurse|Sales Manager|Web Developer|Head Chef|Truck Driver|Tax Lawyer|Art Teacher|Site Engineer|"
    "Shop Assistant|Lab Technician|Office Clerk|Ship Captain|Bank Teller|Film Editor|Tour Guide|Plumber|Welder|Baker|"
    "Architect|Translator|Pilot|Florist|Librarian|Security Guard|Barista",
)
TASKS = (
    "Paint the fence|Review the budget|Fix the login page|Update the price list|Water the plants|Call the landlord|"
    "Write the minutes|Order new chairs|Plan the summer party|Test the backup|Clean the gutters|Translate the manual|"
    "Check the smoke alarm|Book the venue|Prepare the audit|Sort the archive|Move the server|Renew the contract|"
    "Draft the newsletter|Count the stock|Repair the gate|Train the new staff|Print the badges|Compare the offers",
    "Sharpen the skis|Scan the receipts|Label the boxes|Feed the horses|Rewrite the intro|Pack the samples|Sweep the yard|"
    "Proofread the thesis|Charge the radios|Wash the curtains|Collect the keys|Send the invitations|Measure the roof|"
    "Sign the lease|Cancel the trial|Oil the hinges|Stack the wood|Tune the piano|Empty the attic|Trim the hedge|"
    "File the report|Bake the bread|Map the trail|Chair the panel",
)
_MONTHS_TEXT = "January February March April May June July August September October November December"
MONTHS = _MONTHS_TEXT.split()


def pool(kind: str, held_out: bool, draw: Draw, count: int = 26) -> list[str]:
    """`count` different names of a kind."""
    side = int(held_out)
    first, last = FIRST[side].split(), LAST[side].split()
    if kind == "person":
        return [f"{a} {b}" for a, b in zip(draw.some(first, count), draw.some(last, count), strict=False)]
    if kind in ("first", "last"):
        return draw.some(first if kind == "first" else last, count)
    if kind == "thing":
        both = [f"{a} {b}" for a in LEADS[side].split() for b in BODIES[side].split()]
        return draw.some(both, count)
    if kind == "firm":
        return [
            f"{name} {draw.one(FORMS)}" if draw.chance(0.5) else name
            for name in draw.some(FIRMS[side].split(), count)
        ]
    if kind == "code":
        letter = draw.one("ABCDKMRSTX")
        return [f"{letter}{draw.one('ABEGKLPX')}-{number}" for number in draw.some(range(100, 999), count)]
    if kind == "place":
        return draw.some(PLACES[side].split(), count)
    words = {
        "cities": CITIES,
        "countries": COUNTRIES,
        "country": COUNTRIES,
        "brands": BRANDS,
        "job": JOBS,
        "task": TASKS,
    }[kind]
    return draw.some(words[min(side, len(words) - 1)].split("|"), count)
