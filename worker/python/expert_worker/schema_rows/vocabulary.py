"""People's words for identifiers: `unit_price` is a unit price, `CustQty` a customer quantity."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path

from expert_worker.errors import BadInput

# Of a name's shape: a capital is `A`, a small letter `a`, a letter without case `o`, a digit `0`.
_SPLIT = re.compile("A+(?!a)|A?a+|o+|0+")
_ABBREVIATIONS_TEXT = """
acct=account addr=address amt=amount avg=average bal=balance cat=category cnt=count cust=customer
del=deleted dept=department desc=description dest=destination dob=date_of_birth dt=date emp=employee
fname=first_name hrs=hours img=image inv=invoice lang=language lname=last_name loc=location max=maximum
mgr=manager min=minimum mins=minutes ms=milliseconds msec=milliseconds msg=message nbr=number nr=number
num=number org=organization pct=percent perc=percent pic=picture pmt=payment prod=product pwd=password
qty=quantity qnty=quantity rcpt=receipt secs=seconds sec=seconds src=source stat=status tel=phone
tot=total txn=transaction usr=user yr=year yrs=years
"""
ABBREVIATIONS = dict(entry.split("=") for entry in _ABBREVIATIONS_TEXT.split())
_PREFIXES = frozenset(("tbl", "tb", "t", "dim", "fact"))
_UNEVEN_TEXT = """
people=person children=child men=man women=woman movies=movie series=series news=news species=species
cookies=cookie addresses=address statuses=status bonuses=bonus buses=bus courses=course houses=house
warehouses=warehouse licenses=license purchases=purchase expenses=expense cases=case responses=response
diagnoses=diagnosis analyses=analysis indices=index staff=staff data=data media=media caches=cache
releases=release phases=phase nurses=nurse leaves=leave aliases=alias shelves=shelf gases=gas lenses=lens
causes=cause databases=database exercises=exercise horses=horse leases=lease bases=base races=race
"""
_UNEVEN = dict(entry.split("=") for entry in _UNEVEN_TEXT.split())
# Other words for common tables, singular.
_OTHER_WORDS_TEXT = """
film=movie movie=film track=song song=track customer=client client=customer employee=staff_member
staff=employee invoice=bill product=article purchase=order vehicle=car doctor=physician apartment=flat
shop=store store=shop company=firm firm=company user=account_holder ticket=issue issue=ticket
category=kind genre=music_genre
"""
_OTHER_WORDS = {
    key: word.replace("_", " ") for key, word in (it.split("=") for it in _OTHER_WORDS_TEXT.split())
}
MOST_BYTES = 1 << 20


def words_of(name: str) -> list[str]:
    """Small letters, abbreviations written out."""
    name = unicodedata.normalize("NFC", name)
    found = [name[it.start() : it.end()].lower() for it in _SPLIT.finditer(_shape(name))]
    if len(found) > 1 and found[-1] == "no":
        found[-1] = "number"
    return " ".join(ABBREVIATIONS.get(word, word) for word in found).replace("_", " ").split()


def _shape(name: str) -> str:
    """One mark for each character. A vowel sign or an accent has the mark of its letter."""
    found = ""
    for letter in name:
        if unicodedata.category(letter).startswith("M"):
            found += found[-1:] or "_"
        elif letter.isupper():
            found += "A"
        elif letter.islower():
            found += "a"
        elif letter.isdigit():
            found += "0"
        else:
            found += "o" if letter.isalnum() else "_"
    return found


def singular(word: str) -> str:
    if word in _UNEVEN:
        return _UNEVEN[word]
    if re.search(r"[^aeiou]ies$", word) and len(word) > 4:
        return word[:-3] + "y"
    if re.search(r"(ss|x|z|ch|sh)es$", word):
        return word[:-2]
    return word[:-1] if re.search(r"[^sui]s$", word) and len(word) > 3 else word


def table_words(name: str) -> list[str]:
    """What people call one row: the last word in the singular."""
    words = words_of(name)
    while len(words) > 1 and words[0] in _PREFIXES and not words[1].isdigit():
        words = words[1:]
    if len(words) > 1 and words[0] in _PREFIXES:
        # `t1`: the number alone says nothing.
        words = [words[0] + words[1], *words[2:]]
    if len(words) > 1 and words[-1] == "table":
        words = words[:-1]
    return [*words[:-1], singular(words[-1])] if words else ["row"]


def table_nouns(name: str) -> tuple[str, ...]:
    words = table_words(name)
    other = _OTHER_WORDS.get(" ".join(words))
    return (" ".join(words), *((other,) if other else ()))


class Synonyms:
    """The user's own words: `{"tracks": ["song"], "tracks.milliseconds": ["length"], "price": ["cost"]}`."""

    def __init__(self, given: dict[str, list[str]]) -> None:
        self._given = {key.casefold(): tuple(words) for key, words in given.items()}
        self.used: set[str] = set()

    def of_table(self, table: str) -> tuple[str, ...]:
        return self._take(table)

    def of_column(self, table: str, column: str) -> tuple[str, ...]:
        return (*self._take(f"{table}.{column}"), *self._take(column))

    def unused(self) -> list[str]:
        return sorted(self._given.keys() - self.used)

    def _take(self, key: str) -> tuple[str, ...]:
        found = self._given.get(key.casefold(), ())
        if found:
            self.used.add(key.casefold())
        return found


def read_synonyms(path: Path | None) -> Synonyms:
    if path is None:
        return Synonyms({})
    hint = 'Write an object such as {"tracks": ["song"], "tracks.milliseconds": ["length", "duration"]}.'
    try:
        data = path.read_bytes()
        if len(data) > MOST_BYTES:
            raise BadInput(f"{path.name} has more than 1 MiB", code="bad-words", hint=hint)
        found = json.loads(data)
    except OSError as error:
        raise BadInput(
            f"cannot read {path}: {error.strerror}", code="bad-words", hint="Check the path."
        ) from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path.name} is not JSON: {error}", code="bad-words", hint=hint) from None
    if not isinstance(found, dict):
        raise BadInput(f"{path.name} is not a JSON object", code="bad-words", hint=hint)
    for key, words in found.items():
        if not isinstance(words, list) or not all(_is_word(word) for word in words):
            raise BadInput(
                f"{path.name}: {key!r} needs a list of words of at most 60 characters, without braces",
                code="bad-words",
                hint=hint,
            )
    return Synonyms(found)


def _is_word(word: object) -> bool:
    return (
        isinstance(word, str)
        and 0 < len(word.strip()) <= 60
        and word.isprintable()
        and not set(word) & set("{}")
    )
