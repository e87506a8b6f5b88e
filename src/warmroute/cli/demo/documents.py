"""Sample documents for the demo: manuals of machines that do not exist, each with questions about it.

They are put together from sentences written for this purpose, with names and numbers drawn from a
seed, so that every round has documents that no instance has seen, as many as it takes.
"""

# Each passage is one line, long or not: it is text, not code.
# ruff: noqa: E501

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

MAKERS: Final = (
    "Aldermoor", "Brenning", "Calder & Pike", "Dunmarrow", "Eskholm", "Farrowgate", "Glenhask", "Hollin",
    "Ivarsund", "Jessop Vale", "Kettleby", "Lorimer", "Marchwood", "Nethercote", "Ostrava Mill", "Penhallow",
)  # fmt: skip
MACHINES: Final = (
    ("bread oven", "loaves", "loaves", "the baking chamber"),
    ("rope winder", "metres of rope", "ropes", "the winding drum"),
    ("seed sorter", "kilograms of seed", "seeds", "the sieve box"),
    ("candle press", "candles", "candles", "the wax bath"),
    ("wool carder", "kilograms of wool", "fleeces", "the carding drum"),
    ("paper mill", "sheets", "sheets", "the pulp vat"),
    ("cider press", "litres of juice", "jugs", "the press basket"),
    ("salt pan", "kilograms of salt", "bowls of salt", "the brine basin"),
    ("tile kiln", "tiles", "tiles", "the firing chamber"),
    ("cheese vat", "wheels of cheese", "wheels", "the curd basin"),
    ("nail cutter", "boxes of nails", "nails", "the feed channel"),
    ("ice saw", "blocks of ice", "blocks", "the blade housing"),
    ("map plotter", "maps", "maps", "the drawing table"),
    ("tea roller", "kilograms of leaf", "trays of leaf", "the rolling table"),
    ("soap boiler", "bars of soap", "bars", "the lye kettle"),
    ("clock lathe", "brass wheels", "wheels", "the spindle housing"),
)
TOWNS: Final = (
    "Harrowmere", "Quillhaven", "Stonnick", "Vellingby", "Upper Tarn", "Wexcombe", "Yarrowfield", "Zennor Bridge",
    "Oakhithe", "Merrivale Quay", "Tolgarth", "Skerry Point",
)  # fmt: skip
METALS: Final = ("grey cast iron", "tinned copper", "stainless steel", "hard brass", "anodised aluminium")
COLOURS: Final = ("red", "green", "white", "amber", "blue", "violet")
OILS: Final = ("rape seed oil", "bearing grease no. 2", "thin clock oil", "graphite paste", "silicone grease")
PEOPLE: Final = (
    "Ada Thornquist", "Bertil Okafor", "Carmen Ruell", "Dorian Achterberg", "Elin Marsh", "Farid Lindqvist",
    "Greta Oyelaran", "Henk Sorrel", "Ines Valdt", "Jonah Prewitt",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Document:
    """A text and what is asked about it.

    Attributes:
        title: Names it.
        text: About 5,000 characters of ASCII.
        questions: Each answered by the text.
    """

    title: str
    text: str
    questions: tuple[str, ...]


def documents(*, seed: str, count: int, questions: int) -> tuple[Document, ...]:
    """Return distinct documents; the same seed gives the same ones.

    Args:
        seed: Any text.
        count: How many.
        questions: How many about each, at most as many as there are.
    """
    return tuple(_manual(random.Random(f"{seed}/{index}"), questions) for index in range(count))  # noqa: S311


@dataclass(frozen=True, slots=True)
class _Machine:
    """What the sentences of one manual speak of."""

    draw: random.Random
    maker: str
    kind: str
    output: str
    goods: str
    chamber: str
    model: str

    @property
    def name(self) -> str:
        return f"{self.maker} {self.model}"

    def number(self, low: int, high: int, step: int = 1) -> int:
        return self.draw.randrange(low, high + 1, step)

    def one(self, words: tuple[str, ...]) -> str:
        return self.draw.choice(words)

    def code(self) -> str:
        return f"{self.one(('E', 'F', 'H', 'K'))}{self.number(10, 99)}"


_Fact = tuple[str, str]
"""A passage, and the question it answers."""


def _manual(draw: random.Random, questions: int) -> Document:
    kind, output, goods, chamber = draw.choice(MACHINES)
    model = (
        f"{draw.choice('ABCDGHKLMNPRSTVX')}{draw.choice('ABCDGHKLMNPRSTVX')}-{draw.randrange(1000, 10000)}"
    )
    machine = _Machine(draw, draw.choice(MAKERS), kind, output, goods, chamber, model)
    title = f"{machine.name} {kind}: operating manual"
    lines, asked = [title, ""], []
    for number, (heading, facts) in enumerate(SECTIONS, start=1):
        passages = [fact(machine) for fact in facts]
        asked += [question for _, question in passages]
        lines += [f"{number}. {heading}", " ".join(passage for passage, _ in passages), ""]
    return Document(title=title, text="\n".join(lines), questions=tuple(draw.sample(asked, questions)))


def _purpose(m: _Machine) -> _Fact:
    return (
        f"The {m.name} is a {m.kind} for workshops that make between {m.number(40, 90, 5)} and {m.number(100, 400, 10)} {m.output} a day. It was first built in {m.one(TOWNS)} in {m.number(1951, 2019)} and has been changed little since, because little needed changing.",
        f"In which town was the {m.kind} first built?",
    )


def _frame(m: _Machine) -> _Fact:
    metal = m.one(METALS)
    return (
        f"Its frame is of {metal}; {m.chamber} can be taken out by one person without tools. The whole machine weighs {m.number(38, 410)} kilograms and stands on {m.one(('three', 'four', 'six'))} feet, which must all touch the floor.",
        "What is the frame made of?",
    )


def _limits(m: _Machine) -> _Fact:
    return (
        f"It is not made for work in the open, for rooms colder than {m.number(2, 12)} degrees or for anything that is not going to be {m.output}. Children, visitors and animals keep a distance of {m.number(2, 5)} metres while it runs.",
        "What distance do visitors keep while it runs?",
    )


def _unpacking(m: _Machine) -> _Fact:
    return (
        f"The crate opens on the side with the {m.one(COLOURS)} arrow. Inside are the machine, a bag with {m.number(6, 24)} bolts, the crank, two spare belts and this manual. If a part is missing, write to {m.one(PEOPLE)} at the works in {m.one(TOWNS)} within {m.number(7, 60)} days, and say which number is stamped on the lid.",
        "How many bolts are in the bag?",
    )


def _place(m: _Machine) -> _Fact:
    return (
        f"Choose a level floor that carries {m.number(500, 1500, 50)} kilograms to the square metre. Leave {m.number(40, 120, 5)} centimetres free behind the machine, for the air it takes in there, and do not put it beside a sink.",
        "How much room must be left behind the machine?",
    )


def _power(m: _Machine) -> _Fact:
    return (
        f"It needs a supply of {m.one(('230', '400'))} volts with a fuse of {m.number(10, 32, 2)} amperes and an earth wire. When the main switch is turned for the first time, the {m.one(COLOURS)} lamp blinks {m.number(3, 9)} times; after that it stays lit, and the machine may be used.",
        "Which fuse does the supply need?",
    )


def _warming(m: _Machine) -> _Fact:
    return (
        f"Before work begins let it run empty for {m.number(5, 45)} minutes. The gauge on {m.chamber} should then show {m.number(30, 220)} degrees. A smell of warm dust is normal in the first week, and no reason to call anybody.",
        "How long should it run empty before work begins?",
    )


def _filling(m: _Machine) -> _Fact:
    return (
        f"Fill {m.chamber} to the {m.one(('upper', 'lower', 'middle'))} mark and no further: one full load is {m.number(12, 80)} litres. Close the lid until both catches click. The lever at the left sets the speed; position {m.number(2, 7)} suits most work, and positions above {m.number(8, 11)} are for trained people only.",
        "Which lever position suits most work?",
    )


def _rhythm(m: _Machine) -> _Fact:
    return (
        f"One cycle takes {m.number(4, 55)} minutes. During the cycle a {m.one(('low hum', 'steady tick', 'soft rattle'))} can be heard; when it stops, wait until the {m.one(COLOURS)} lamp goes out before the lid is opened. Take the {m.goods} out with gloves and lay them on the rack, never on the floor.",
        "How many minutes does one cycle take?",
    )


def _pressure(m: _Machine) -> _Fact:
    return (
        f"The relief valve opens at {m.number(3, 16)} bar. It must be tried every {m.number(2, 12)} weeks by lifting its ring with a stick; a valve that does not hiss is changed the same day. The part has the number {m.number(10000, 99999)}.",
        "At how many bar does the relief valve open?",
    )


def _faults(m: _Machine) -> _Fact:
    first, second, third = (m.code() for _ in range(3))
    return (
        f"The display shows a letter and two digits when something is wrong. {first} means that {m.chamber} is empty: fill it and press the {m.one(COLOURS)} button. {second} means that a belt slips: tighten it by {m.number(1, 4)} turns of the nut under the cover. {third} means that the motor is too warm: open the flaps and wait for {m.number(15, 90)} minutes. Any other code is a matter for the works.",
        f"What does the display mean by {second}?",
    )


def _noise(m: _Machine) -> _Fact:
    return (
        f"If it stands still without a code, look at the fuse first, then at the lid, then at the calendar: after {m.number(900, 5000, 100)} hours of work it waits for its service and will not start. If it knocks, one foot does not touch the floor.",
        "After how many hours of work does it wait for its service?",
    )


def _cleaning(m: _Machine) -> _Fact:
    return (
        f"Clean {m.chamber} every evening with warm water and a {m.one(('horsehair', 'nylon', 'cotton'))} brush. Do not use sand, wire or vinegar. Once in {m.number(2, 9)} weeks take out the grid, lay it in water with {m.number(20, 200, 10)} grams of soda over night, and dry it before it goes back.",
        "How much soda goes into the water for the grid?",
    )


def _oiling(m: _Machine) -> _Fact:
    return (
        f"The main bearing takes {m.number(5, 40)} drops of {m.one(OILS)} every {m.number(20, 120, 5)} hours; the chain takes the same, half as often. Too much is worse than too little: it drips on the {m.goods}.",
        "What does the main bearing take?",
    )


def _service(m: _Machine) -> _Fact:
    return (
        f"A yearly service takes {m.number(2, 7)} hours. {m.one(PEOPLE)} and two fitters travel from {m.one(TOWNS)} in {m.one(('March', 'April', 'June', 'September', 'October'))}; ask for a day in writing by the end of {m.one(('January', 'February'))}. Belts, seals and the lamp are changed at every service, the motor after {m.number(8, 25)} years.",
        "How many hours does the yearly service take?",
    )


def _storage(m: _Machine) -> _Fact:
    return (
        f"If the machine is not used for more than {m.number(3, 10)} weeks, empty it, leave the lid open by a hand's breadth, loosen the belts and cover it with linen, not with plastic. Stored like this it keeps for {m.number(5, 30)} years.",
        "What is it covered with when it is stored?",
    )


def _moving(m: _Machine) -> _Fact:
    return (
        f"For a move take off the crank and the rack, and lift the machine at the {m.number(2, 6)} marked points only. Two people carry it up to {m.number(10, 60)} metres; farther than that it travels on a cart with air in its tyres.",
        "At how many points may the machine be lifted?",
    )


def _words(m: _Machine) -> _Fact:
    return (
        f"The makers answer letters in {m.one(('English', 'Welsh', 'Danish', 'Portuguese'))} within {m.number(3, 20)} days. The machine has a warranty of {m.number(2, 12)} years, which ends when the seal under {m.chamber} is broken by anybody but the works.",
        "How many years of warranty does the machine have?",
    )


SECTIONS: Final[tuple[tuple[str, tuple[Callable[[_Machine], _Fact], ...]], ...]] = (
    ("What it is for", (_purpose, _frame, _limits)),
    ("Setting it up", (_unpacking, _place, _power)),
    ("Working with it", (_warming, _filling, _rhythm, _pressure)),
    ("When something is wrong", (_faults, _noise)),
    ("Care", (_cleaning, _oiling, _service)),
    ("Putting it away", (_storage, _moving)),
    ("Warranty and letters", (_words,)),
)
