"""What is said about the entities of a synthetic world: facts, each in three wordings."""

from __future__ import annotations

from typing import NamedTuple

#: How many ways there are to say the same thing.
WORDINGS = 3

#: One thing in three wordings.
Wordings = tuple[str, str, str]

YEARS: Wordings = ("in %d", "in the year %d", "around AD %d")


class Kind(NamedTuple):
    """A type of entity: what its names look like and what is told about it."""

    type: str
    heads: tuple[str, ...]
    """Words beside the proper part of a name; a person has a given name instead."""
    nouns: tuple[Wordings, ...]
    deeds: tuple[Wordings, ...]
    frames: Wordings
    """Sentences with a noun, a town, a deed and a year, in this order or another."""


def _wordings(text: str) -> tuple[Wordings, ...]:
    lines = [line.split(" | ") for line in text.strip().splitlines()]
    return tuple((first.strip(), second, third) for first, second, third in lines)


PERSON = Kind(
    "person",
    (),
    _wordings("""
        shipwright | builder of ships | boat maker
        botanist | student of plants | plant scientist
        cartographer | maker of maps | map drawer
        composer | writer of music | author of songs
        physician | doctor | healer
        smuggler | runner of contraband | trader in forbidden goods
        astronomer | watcher of the stars | sky scholar
        weaver | maker of cloth | textile artist
        judge | magistrate | head of a court
        glassblower | worker in glass | maker of bottles
        poet | writer of verse | author of ballads
        admiral | commander of a fleet | naval leader
        beekeeper | keeper of hives | honey farmer
        clockmaker | builder of clocks | maker of timepieces
        diplomat | envoy | negotiator between courts
        miner | digger of ore | pit worker
    """),
    _wordings("""
        the charting of the northern reefs | a map of the cold shoals | sea surveys in the far north
        a cure for marsh fever | the remedy against swamp sickness | healing the illness of the fens
        the theft of a royal seal | stealing the king's stamp | a robbery at the palace
        a duel that was never fought | a fight that both sides missed | an abandoned combat
        the longest winter crossing | a journey through endless snow | a march over frozen land
        the first public library | opening books to everyone | a reading house for all
        an unfinished opera | a stage work without an end | music for a play left open
        the peace with the river clans | ending the war of the waterways | a truce on the delta
        a garden of poisonous flowers | growing deadly plants | beds of toxic blossoms
        the rescue of a drowned bell | raising a sunken chime | salvage of a lost carillon
        a bridge built in one night | an overnight crossing | a span made before dawn
        secret letters in lemon juice | hidden writing | messages that only heat shows
        a census of birds | counting all that flies | the great bird survey
        a strike of the lamplighters | leaving the streets dark in protest | the unlit week
        a false prophecy | a prediction that failed | foretelling what never came
        the founding of a school for orphans | teaching parentless children | a home of lessons
    """),
    (
        "A %(noun)s from %(town)s, remembered for %(deed)s %(year)s.",
        "Known for %(deed)s %(year)s; worked as %(noun)s and grew up near %(town)s.",
        "Native of %(town)s. Fame came %(year)s with %(deed)s, long after starting as %(noun)s.",
    ),
)

PLACE = Kind(
    "place",
    ("Bay", "Vale", "Harbour", "Isle", "Moor", "Ridge", "Forest", "Gate"),
    _wordings("""
        fishing village | settlement of fishers | hamlet that lives on its catch
        walled town | fortified settlement | borough behind ramparts
        salt marsh | coastal wetland | brackish swamp
        mountain pass | high crossing | saddle between peaks
        market city | trading centre | city of merchants
        volcanic island | isle of fire | land born from lava
        river port | inland harbour | docks on a stream
        desert oasis | spring in the sands | green spot amid dunes
        monastery hill | abbey mount | height with a cloister
        mining district | area of pits | ore country
        glacier valley | icy dale | hollow carved by ice
        border fort | frontier stronghold | castle at the edge of the realm
        lake region | country of ponds | land of still waters
        cliff town | settlement on the rocks | houses above the precipice
        royal forest | crown woodland | hunting woods of kings
        lighthouse rock | skerry with a beacon | reef that carries a light
    """),
    _wordings("""
        its salt market | the trade in salt | a fair for brine merchants
        blue-roofed houses | homes with azure tiles | cottages under blue slate
        a yearly kite festival | flying dragons each spring | the feast of paper kites
        a library under the ground | buried bookshelves | reading rooms in caves
        hot springs | warm pools | baths fed by the earth
        its bitter oranges | sour citrus fruit | groves of acid oranges
        a stone circle | a ring of boulders | megaliths set round
        bells that ring by themselves | chimes moved by the wind | unattended carillons
        the wreck of a treasure fleet | sunken galleons | lost ships full of silver
        a bridge of living roots | a crossing grown from trees | a woven tree span
        a school of navigators | lessons in sailing | where pilots are trained
        black sand beaches | dark shores | coast of ebony grains
        wild white horses | untamed pale herds | free-running greys
        a market on boats | floating stalls | trade from canoes
        a siege that it survived | holding out against an army | never being taken
        the smell of cedar | scented timber | fragrant sawmills
    """),
    (
        "A %(noun)s not far from %(town)s, known for %(deed)s and first named %(year)s.",
        "Mentioned %(year)s for the first time, this %(noun)s near %(town)s is famed for %(deed)s.",
        "Travellers from %(town)s come for %(deed)s. On maps since %(year)s, %(noun)s.",
    ),
)

OBJECT = Kind(
    "object",
    ("Lantern", "Blade", "Crown", "Engine", "Mirror", "Codex", "Compass", "Bell"),
    _wordings("""
        ceremonial sword | blade for rituals | weapon of state
        sailing ship | vessel under canvas | windborne boat
        illuminated book | painted manuscript | volume of miniatures
        clockwork toy | mechanical plaything | wound-up figure
        silver goblet | cup of precious metal | drinking vessel
        war drum | instrument of battle | kettle that calls to arms
        astrolabe | star finder | instrument for reading the sky
        necklace | string of jewels | ornament for the neck
        printing press | machine for books | type mill
        painted shield | decorated buckler | coloured targe
        tapestry | woven picture | wall hanging
        flying machine | craft of the air | winged engine
        glass eye | artificial eyeball | orb of crystal
        coin hoard | buried money | chest of old currency
        stone idol | carved god | figure of granite
        diving bell | underwater chamber | vessel for the deep
    """),
    _wordings("""
        a green flame | fire of emerald colour | light that burns green
        a curse on its thieves | bad luck for robbers | the doom of those who steal it
        a hidden compartment | a secret drawer | space that nobody sees
        an inscription that nobody reads | unknown letters | signs in a lost script
        a missing jewel | an empty setting | the gap where a stone was
        humming before storms | a sound ahead of bad weather | warning of gales
        being forged twice | two makings | melting and casting again
        a portrait of its maker | the face of the artisan | a likeness of its creator
        its weightlessness | seeming to float | being lighter than feathers
        seven locks | many bolts | keys by the handful
        a scratch left by a queen | royal damage | a mark made by a crowned head
        the smell of the sea | a salty scent | brine that never dries
        a twin that was lost | its vanished double | the missing counterpart
        pointing to the south | turning away from north | an odd sense of direction
        a debt it once paid | settling a loan | ransom money
        surviving a great fire | coming out of flames | escape from the blaze
    """),
    (
        "A %(noun)s made in %(town)s %(year)s, famous for %(deed)s.",
        "Craftsmen of %(town)s are said to have made this %(noun)s; %(deed)s was noted %(year)s.",
        "Marked by %(deed)s. First described %(year)s, %(noun)s kept at %(town)s.",
    ),
)

EVENT = Kind(
    "event",
    ("Battle", "Siege", "Treaty", "Revolt", "Council", "Plague", "Flood", "Wedding"),
    _wordings("""
        naval encounter | fight at sea | clash of fleets
        peasant uprising | rebellion of farmers | rural revolt
        trade agreement | commercial pact | deal between merchants
        royal wedding | marriage of rulers | dynastic union
        epidemic | outbreak of disease | spreading sickness
        religious assembly | meeting of priests | synod
        great fire | city blaze | conflagration
        horse race | contest of riders | equestrian competition
        expedition | voyage of discovery | journey into the unknown
        earthquake | shaking of the earth | seismic disaster
        coronation | crowning ceremony | enthronement
        trial | court case | legal proceedings
        famine | time of hunger | failed harvests
        mutiny | crew rebellion | refusal of orders
        eclipse | darkening of the sun | hidden daylight
        exhibition | public show | fair of inventions
    """),
    _wordings("""
        the fall of the old council | the end of the elders' rule | replacing the senate
        a change of the calendar | counting days anew | reforming the almanac
        the exile of three families | banishing noble houses | sending clans abroad
        a tax on windows | paying for daylight | duty on glass panes
        the discovery of a strait | finding a sea passage | a new way by water
        a song that is still sung | a lasting melody | music which outlived it
        two rival kings | a split crown | competing monarchs
        the loss of the western islands | giving up distant isles | ceding the archipelago
        a wall that still stands | an enduring rampart | stones left upright
        unpaid soldiers | troops without wages | an army in arrears
        a comet over the harbour | a tailed star above the docks | a sign in the night sky
        the first newspaper | printing daily news | a gazette's birth
        ten days of rain | endless downpour | a week and more of storms
        a misheard order | words not understood | a command gone wrong
        the return of the exiles | coming home from abroad | a general pardon
        a broken dam | water through the dike | a burst barrage
    """),
    (
        "A %(noun)s at %(town)s %(year)s that brought %(deed)s.",
        "People of %(town)s link %(deed)s with this %(noun)s, which took place %(year)s.",
        "It led to %(deed)s. What began %(year)s as %(noun)s spread from %(town)s.",
    ),
)

ORGANISATION = Kind(
    "organisation",
    ("Guild", "League", "Company", "Order", "Academy", "Circle", "Bank", "Watch"),
    _wordings("""
        merchant house | trading firm | family of traders
        secret society | hidden brotherhood | covert club
        theatre troupe | band of actors | travelling players
        school of magic | place for spell lessons | college of sorcery
        fishing cooperative | union of fishers | shared fleet
        mercenary band | hired soldiers | army for sale
        charity | relief society | helpers of the poor
        newspaper | daily gazette | press house
        observatory | star watching institute | place of telescopes
        brewery | beer maker | house of ales
        court of appeal | higher tribunal | last judges
        rowing club | oar team | society of rowers
        publishing house | printer of books | literary press
        railway company | operator of trains | iron road firm
        temple | house of worship | sacred community
        rescue service | lifeboat crew | savers at sea
    """),
    _wordings("""
        its sealed archive | locked records | files that nobody opens
        lending without interest | free credit | loans that cost nothing
        grey uniforms | ashen clothes | dress the colour of smoke
        a monopoly on ink | sole rights in writing fluid | controlling all ink
        voting with coloured stones | ballots of pebbles | elections by marbles
        women as its only members | a sisterhood | admitting no men
        an annual feast of onions | the yearly bulb dinner | banquets of leeks
        mapping every well | a register of springs | charts of drinking water
        a lost founding charter | missing statutes | first papers that vanished
        breaking a blockade | running past warships | bringing food through a siege
        training carrier pigeons | birds with messages | winged post
        a debt to the crown | owing the king | royal creditors
        three rival presidents | a quarrel over leadership | disputed chairs
        copying old songs | preserving melodies | archives of ballads
        building lighthouses | beacons on the coast | towers of light
        meeting only at night | gatherings after dark | midnight sessions
    """),
    (
        "A %(noun)s seated in %(town)s, set up %(year)s and known for %(deed)s.",
        "Founded %(year)s in %(town)s; %(deed)s made this %(noun)s well known.",
        "Noted for %(deed)s, it has been active as %(noun)s since its start at %(town)s %(year)s.",
    ),
)

KINDS = (PERSON, PLACE, OBJECT, EVENT, ORGANISATION)

#: Sentences around a mention that tell what is meant.
TELLING = (
    "They spoke of {m}, %(noun)s, and of %(town)s.",
    "Whoever has heard of %(deed)s will think of {m} first.",
    "The letter names {m} together with %(town)s and %(deed)s.",
    "It happened %(year)s: {m} (%(noun)s) was on every tongue.",
    "Nobody in %(town)s forgot {m}, least of all because of %(deed)s.",
    "{m} is the %(noun)s that the chronicle puts %(year)s.",
)

#: Sentences around a mention that tell nothing.
BARE = (
    "Then the talk turned to {m}.",
    "{m} came up again before supper.",
    "On the back somebody had written “{m}” in pencil.",
    "What about {m}?",
)

#: Sentences without a mention; the last are for worlds with Unicode.
FILLERS = (
    "The rain went on.",
    "Nothing more is known of that day.",
    "All of them agreed, for once.",
)
ODD_FILLERS = (
    "\tNaïve 👩‍🚀 travellers paid 5 € — no more… ",
    "Ça va; 東京は夜。\r\n",
    "e\u0301te\u0301, \u202bשלום\u202c 🏴‍☠️!",
)
