//! Reads a grammar in GBNF, the notation of llama.cpp, far enough to say where it is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::str::Chars;

const MOST_RULES: usize = 2_000;
const DEEPEST: usize = 64;
/// As in llama.cpp, which writes every repetition out.
const MOST_REPEATS: u32 = 1_000;

/// Lines and columns count from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    pub line: usize,
    pub column: usize,
    pub message: String,
}

type Found<T> = Result<T, Mistake>;
type Alternatives = Vec<Vec<Item>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    line: usize,
    column: usize,
}

impl Place {
    fn mistake(self, message: impl Into<String>) -> Mistake {
        Mistake { line: self.line, column: self.column, message: message.into() }
    }
}

#[derive(Debug)]
enum Item {
    /// Characters; whether there are none.
    Text {
        is_empty: bool,
    },
    Rule(String, Place),
    Group(Alternatives),
    /// Whether it may be left out.
    Repeated(Box<Item>, bool),
}

struct Rule {
    place: Place,
    body: Alternatives,
}

type Rules = BTreeMap<String, Rule>;

/// The first mistake of a grammar: of its text, then of its rules.
pub fn check(text: &str) -> Found<()> {
    let mut reader = Reader { rest: text.chars().peekable(), place: Place { line: 1, column: 1 }, depth: 0 };
    let rules = reader.rules()?;
    names_are_known(&rules)?;
    let nullable = matching(&rules, |item, known| match item {
        Item::Text { is_empty } => *is_empty,
        Item::Repeated(_, optional) => *optional,
        Item::Rule(name, _) => known.contains(name.as_str()),
        Item::Group(_) => false,
    });
    no_left_recursion(&rules, &nullable)?;
    let finite = matching(&rules, |item, known| match item {
        Item::Text { .. } | Item::Repeated(_, true) => true,
        Item::Rule(name, _) => known.contains(name.as_str()),
        Item::Repeated(_, false) | Item::Group(_) => false,
    });
    match rules.get("root") {
        None => Err(Place { line: 1, column: 1 }.mistake("there is no rule `root`, where an answer begins")),
        Some(root) if !finite.contains("root") => {
            Err(root.place.mistake("no answer fits: no alternative of `root` ever ends"))
        }
        Some(_) => Ok(()),
    }
}

fn names_are_known(rules: &Rules) -> Found<()> {
    fn each(rules: &Rules, body: &Alternatives) -> Found<()> {
        body.iter().flatten().try_for_each(|item| one(rules, item))
    }
    fn one(rules: &Rules, item: &Item) -> Found<()> {
        match item {
            Item::Rule(name, place) if !rules.contains_key(name) => {
                Err(place.mistake(format!("there is no rule `{name}`")))
            }
            Item::Group(body) => each(rules, body),
            Item::Repeated(item, _) => one(rules, item),
            Item::Rule(..) | Item::Text { .. } => Ok(()),
        }
    }
    rules.values().try_for_each(|rule| each(rules, &rule.body))
}

/// The rules with an alternative whose items all match; a group matches like a rule.
fn matching(rules: &Rules, matches: impl Fn(&Item, &BTreeSet<&str>) -> bool + Copy) -> BTreeSet<&str> {
    fn item_matches(
        item: &Item,
        known: &BTreeSet<&str>,
        matches: impl Fn(&Item, &BTreeSet<&str>) -> bool + Copy,
    ) -> bool {
        match item {
            Item::Group(body) => any(body, known, matches),
            Item::Repeated(inner, false) => item_matches(inner, known, matches),
            _ => matches(item, known),
        }
    }
    fn any(
        body: &Alternatives,
        known: &BTreeSet<&str>,
        matches: impl Fn(&Item, &BTreeSet<&str>) -> bool + Copy,
    ) -> bool {
        body.iter().any(|items| items.iter().all(|item| item_matches(item, known, matches)))
    }
    let mut known = BTreeSet::new();
    loop {
        let more: Vec<&str> = rules
            .iter()
            .filter(|(name, rule)| !known.contains(name.as_str()) && any(&rule.body, &known, matches))
            .map(|(name, _)| name.as_str())
            .collect();
        if more.is_empty() {
            return known;
        }
        known.extend(more);
    }
}

/// llama.cpp refuses a rule that begins with itself.
fn no_left_recursion(rules: &Rules, nullable: &BTreeSet<&str>) -> Found<()> {
    let firsts: BTreeMap<&str, BTreeSet<&str>> = rules
        .iter()
        .map(|(name, rule)| {
            let mut found = BTreeSet::new();
            first_rules(&rule.body, nullable, &mut found);
            (name.as_str(), found)
        })
        .collect();
    for (name, rule) in rules {
        let mut seen = BTreeSet::new();
        let mut next: Vec<&str> = firsts.get(name.as_str()).into_iter().flatten().copied().collect();
        while let Some(found) = next.pop() {
            if found == name {
                let message = format!("the rule `{name}` begins with itself");
                return Err(rule.place.mistake(message));
            }
            if seen.insert(found) {
                next.extend(firsts.get(found).into_iter().flatten());
            }
        }
    }
    Ok(())
}

/// The rules that may come first; says whether all of it may be empty.
fn first_rules<'a>(body: &'a Alternatives, nullable: &BTreeSet<&str>, found: &mut BTreeSet<&'a str>) -> bool {
    let mut empty = false;
    for items in body {
        empty |= items.iter().all(|item| first_of(item, nullable, found));
    }
    empty
}

fn first_of<'a>(item: &'a Item, nullable: &BTreeSet<&str>, found: &mut BTreeSet<&'a str>) -> bool {
    match item {
        Item::Text { is_empty } => *is_empty,
        Item::Rule(name, _) => {
            found.insert(name);
            nullable.contains(name.as_str())
        }
        Item::Group(body) => first_rules(body, nullable, found),
        Item::Repeated(item, optional) => first_of(item, nullable, found) || *optional,
    }
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    place: Place,
    depth: usize,
}

impl Reader<'_> {
    fn rules(&mut self) -> Found<Rules> {
        let mut rules = Rules::new();
        self.blank(true);
        while self.peek().is_some() {
            let place = self.place;
            let name = self.name()?;
            self.blank(false);
            for sign in "::=".chars() {
                self.expect(sign, "`::=` after the name of a rule")?;
            }
            self.blank(true);
            let body = self.alternatives()?;
            match self.peek() {
                None | Some('\n' | '\r') => self.blank(true),
                Some(other) => return Err(self.place.mistake(format!("`{other}` is out of place"))),
            }
            let message = format!("there are two rules `{name}`");
            if rules.insert(name, Rule { place, body }).is_some() {
                return Err(place.mistake(message));
            }
            if rules.len() > MOST_RULES {
                return Err(place.mistake(format!("there are more than {MOST_RULES} rules")));
            }
        }
        Ok(rules)
    }

    fn alternatives(&mut self) -> Found<Alternatives> {
        let mut found = vec![self.sequence()?];
        while self.peek() == Some('|') {
            self.next();
            self.blank(true);
            found.push(self.sequence()?);
        }
        Ok(found)
    }

    fn sequence(&mut self) -> Found<Vec<Item>> {
        let mut items: Vec<Item> = Vec::new();
        loop {
            let place = self.place;
            let item = match self.peek() {
                Some('"') => self.literal()?,
                Some('[') => self.class()?,
                Some('.') => {
                    self.next();
                    Item::Text { is_empty: false }
                }
                Some('(') => self.group()?,
                Some(sign) if is_name(sign) => Item::Rule(self.name()?, place),
                Some('*' | '+' | '?' | '{') => {
                    return Err(place.mistake("there is nothing before it to repeat"));
                }
                _ => return Ok(items),
            };
            items.push(self.repeated(item)?);
            self.blank(self.depth > 0);
        }
    }

    fn repeated(&mut self, item: Item) -> Found<Item> {
        let optional = match self.peek() {
            Some('*' | '?') => {
                self.next();
                true
            }
            Some('+') => {
                self.next();
                false
            }
            Some('{') => self.count()? == 0,
            _ => return Ok(item),
        };
        if matches!(self.peek(), Some('*' | '?' | '+' | '{')) {
            return Err(self.place.mistake("a repetition is repeated: put parentheses around the first"));
        }
        Ok(Item::Repeated(Box::new(item), optional))
    }

    /// `{2}`, `{2,}` or `{2,5}`.
    fn count(&mut self) -> Found<u32> {
        let place = self.place;
        self.next();
        let least = self.number()?;
        let most = if self.peek() == Some(',') {
            self.next();
            if self.peek() == Some('}') { least } else { self.number()? }
        } else {
            least
        };
        self.expect('}', "`}` after the number of repetitions")?;
        if most < least {
            return Err(place.mistake(format!("it repeats at least {least} and at most {most} times")));
        }
        Ok(least)
    }

    fn number(&mut self) -> Found<u32> {
        let place = self.place;
        let mut digits = String::new();
        while let Some(digit) = self.peek().filter(char::is_ascii_digit) {
            digits.push(digit);
            self.next();
        }
        match digits.parse() {
            Ok(number) if number <= MOST_REPEATS => Ok(number),
            _ if digits.is_empty() => Err(place.mistake("a number of repetitions is missing")),
            _ => Err(place.mistake(format!("at most {MOST_REPEATS} repetitions"))),
        }
    }

    fn group(&mut self) -> Found<Item> {
        let place = self.place;
        self.next();
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(place.mistake(format!("parentheses are nested deeper than {DEEPEST} levels")));
        }
        self.blank(true);
        let body = self.alternatives()?;
        if self.peek() != Some(')') {
            return Err(place.mistake("this parenthesis is not closed"));
        }
        self.next();
        self.depth -= 1;
        Ok(Item::Group(body))
    }

    fn literal(&mut self) -> Found<Item> {
        let place = self.place;
        self.next();
        let mut is_empty = true;
        loop {
            match self.peek() {
                Some('"') => {
                    self.next();
                    return Ok(Item::Text { is_empty });
                }
                None | Some('\n' | '\r') => return Err(place.mistake("this text is not closed")),
                Some(_) => self.character()?,
            };
            is_empty = false;
        }
    }

    fn class(&mut self) -> Found<Item> {
        let place = self.place;
        self.next();
        let negated = self.peek() == Some('^');
        if negated {
            self.next();
        }
        let mut is_empty = true;
        loop {
            match self.peek() {
                Some(']') if is_empty && !negated => {
                    return Err(place.mistake("no character fits: this class is empty"));
                }
                Some(']') => {
                    self.next();
                    return Ok(Item::Text { is_empty: false });
                }
                None | Some('\n' | '\r') => return Err(place.mistake("this class is not closed")),
                Some(_) => {}
            }
            let start = self.place;
            let first = self.character()?;
            if self.peek() == Some('-') {
                self.next();
                if self.peek() != Some(']') {
                    let last = self.character()?;
                    if last < first {
                        return Err(start.mistake("this range ends before it begins"));
                    }
                }
            }
            is_empty = false;
        }
    }

    fn character(&mut self) -> Found<char> {
        let place = self.place;
        let Some(sign) = self.next() else { return Err(place.mistake("the grammar ends here")) };
        if sign != '\\' {
            return Ok(sign);
        }
        let digits = match self.next() {
            Some('n') => return Ok('\n'),
            Some('r') => return Ok('\r'),
            Some('t') => return Ok('\t'),
            Some(sign @ ('\\' | '"' | '[' | ']')) => return Ok(sign),
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            _ => return Err(place.mistake("this escape is unknown")),
        };
        let code = (0..digits).try_fold(0_u32, |code, _| {
            self.next().and_then(|digit| digit.to_digit(16)).map(|digit| (code << 4) | digit)
        });
        code.and_then(char::from_u32)
            .ok_or_else(|| place.mistake(format!("{digits} hexadecimal digits of a character must follow")))
    }

    fn name(&mut self) -> Found<String> {
        let place = self.place;
        let mut name = String::new();
        while let Some(sign) = self.peek().filter(|sign| is_name(*sign)) {
            name.push(sign);
            self.next();
        }
        if name.is_empty() {
            return Err(place.mistake("a rule's name of letters, digits and `-` must stand here"));
        }
        Ok(name)
    }

    fn expect(&mut self, sign: char, what: &str) -> Found<()> {
        if self.peek() != Some(sign) {
            return Err(self.place.mistake(format!("{what} is missing")));
        }
        self.next();
        Ok(())
    }

    /// Spaces and comments; line ends where a rule may continue.
    fn blank(&mut self, over_lines: bool) {
        loop {
            match self.peek() {
                Some(' ' | '\t') => {}
                Some('\n' | '\r') if over_lines => {}
                Some('#') => {
                    while !matches!(self.peek(), None | Some('\n' | '\r')) {
                        self.next();
                    }
                    continue;
                }
                _ => return,
            }
            self.next();
        }
    }

    fn peek(&mut self) -> Option<char> {
        self.rest.peek().copied()
    }

    fn next(&mut self) -> Option<char> {
        let sign = self.rest.next()?;
        if sign == '\n' {
            self.place = Place { line: self.place.line + 1, column: 1 };
        } else {
            self.place.column += 1;
        }
        Some(sign)
    }
}

fn is_name(sign: char) -> bool {
    sign.is_ascii_alphanumeric() || sign == '-'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grammars_of_llama_cpp_are_read() {
        for text in [
            "root ::= \"yes\" | \"no\"",
            "# JSON\nroot   ::= object\nvalue  ::= object | array | string | (\"true\" | \"null\") ws\n\nobject ::=\n  \"{\" ws (\n    \
             string \":\" ws value\n    (\",\" ws string \":\" ws value)*\n  )? \"}\" ws\narray ::= \"[\" ws ( value (\",\" ws value)* )? \"]\" ws\n\
             string ::= \"\\\"\" ( [^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\bfnrt] | \"u\" [0-9a-fA-F]{4}) )* \"\\\"\" ws\nws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n",
            "root ::= [a-z-]+ . \"\\u00e4\" {0,3} end\nend ::= \"\"".replace(" {0,3}", "{0,3}").as_str(),
            "root ::= a b?\r\na ::= \"x\" # the end\r\nb ::= [^\\n]{2,}\r\n",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn the_grammar_of_the_page_that_the_hint_names_is_read() {
        let page = include_str!("../../docs/scorers.md").replace("\r\n", "\n");
        let block = page.split_once("```gbnf\n").and_then(|(_, rest)| rest.split_once("```")).unwrap().0;
        assert_eq!(check(block), Ok(()));
        for part in ["| \"no\"", "{0,2}", "+ ", "*", ")?", "[^", "[a-z", "\\u00e0", "\\\"", "# "] {
            assert!(block.contains(part), "{part} is not shown");
        }
    }

    #[test]
    fn the_first_mistake_is_named_with_its_line_and_column() {
        let deep = format!("root ::= {}\"a\"{}", "(".repeat(100_000), ")".repeat(100_000));
        let many =
            (0..3_000).fold("root ::= \"a\"\n".to_owned(), |text, n| text + &format!("r{n} ::= \"a\"\n"));
        for (text, line, column, message) in [
            ("", 1, 1, "no rule `root`"),
            ("start ::= \"a\"", 1, 1, "no rule `root`"),
            ("root ::= \"a\n", 1, 10, "not closed"),
            ("root ::= [a-z\n", 1, 10, "not closed"),
            ("root ::= (\"a\" | \"b\"\n", 1, 10, "not closed"),
            ("root := \"a\"", 1, 7, "`::=`"),
            ("root ::= \"a\" )", 1, 14, "`)` is out of place"),
            ("root ::= item\n\n# more\nitems ::= \"a\"", 1, 10, "no rule `item`"),
            ("root ::= \"a\"\nroot ::= \"b\"", 2, 1, "two rules `root`"),
            ("root ::= * \"a\"", 1, 10, "nothing before it"),
            ("root ::= \"a\"{5,2}", 1, 13, "at least 5 and at most 2"),
            ("root ::= \"a\"{1,100000}", 1, 16, "at most 1000"),
            ("root ::= \"a\"{}", 1, 14, "number of repetitions is missing"),
            ("root ::= \"a\"*?", 1, 14, "repetition is repeated"),
            ("root ::= \"\\q\"", 1, 11, "escape is unknown"),
            ("root ::= \"\\ud8\"", 1, 11, "4 hexadecimal digits"),
            ("root ::= [z-a]", 1, 11, "ends before it begins"),
            ("root ::= []", 1, 10, "class is empty"),
            ("root ::= \"a\"\nmy_rule ::= \"b\"", 2, 3, "`::=`"),
            ("root ::= root \"a\" | \"a\"", 1, 1, "begins with itself"),
            ("root ::= b\nb ::= c? [x]* (b | \"y\")\nc ::= \"z\"", 2, 1, "`b` begins with itself"),
            ("root ::= a\na ::= \"x\" a", 1, 1, "ever ends"),
            ("root ::= (\"x\" root)+", 1, 1, "ever ends"),
            (deep.as_str(), 1, 74, "deeper than 64"),
            (many.as_str(), 2_001, 1, "more than 2000 rules"),
        ] {
            let found = check(text).unwrap_err();
            let text: String = text.chars().take(60).collect();
            assert!(found.message.contains(message), "{text}: {found:?}");
            assert_eq!((found.line, found.column), (line, column), "{text}: {found:?}");
        }
    }
}
