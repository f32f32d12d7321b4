"""The agreed words: text that people see uses them, and none of the words that they replace.

Text is every string of the ``ROOMS`` with a space in it, and every label; docstrings, names and JSON keys are not. Help
is read as ``--help`` prints it, templates without their tags and code.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer
from typer.testing import CliRunner

import truerisk
from truerisk.certificates.methods import METHODS
from truerisk.certificates.request import Request
from truerisk.certificates.schema import flags
from truerisk.cli.app import app

HOME = Path(truerisk.__file__).parent
ROOMS = (
    "words.py",
    "progress.py",
    "certificates/*.py",
    "certificates/*/*.py",
    "cli/app.py",
    "cli/commands.py",
    "cli/options.py",
    "cli/search.py",
    "cli/show.py",
    "cli/declare/certify.py",
    "cli/declare/search.py",
    "cli/declare/verify_predict.py",
    "cli/compare.py",
    "cli/measure.py",
    "cli/measured_network.py",
    "cli/show_compare.py",
    "cli/show_measures.py",
    "cli/declare/measure.py",
    "measures/*.py",
    "report/compare.py",
    "report/measure*.py",
    "report/svg.py",
    "report/certificate.py",
    "report/figures.py",
    "report/labels.py",
    "report/scale.py",
    "report/tour.py",
    "report/tour_figures.py",
    "cli/tour.py",
    "cli/*tighten*.py",
    "cli/declare/tighten.py",
    "pacbayes/rescaling*.py",
    "report/tighten*.py",
    "cli/declare/tour.py",
    "cli/landscape.py",
    "cli/declare/landscape.py",
    "landscape/*.py",
    "report/landscape*.py",
    "tours/*.py",
    "cli/lab.py",
    "cli/declare/lab.py",
    "lab/*.py",
    "lab/*/*.py",
)
TEMPLATES = (
    "certificate.html.j2", "comparison.html.j2", "lab.html.j2", "lab_index.html.j2", "landscape.html.j2",
    "measures.html.j2", "measures_parts.html.j2", "tighten.html.j2", "tour.html.j2",
)  # fmt: skip
UNITS = (r"\bwidths?\b(?!=)",)  # in the lab, a width is a number of hidden units
COMMANDS = ("certify", "verify", "predict", "search", "tighten", "tour", "measure", "landscape")

BANNED = {
    r"\bfloors?\b": "hold-out baseline",
    r"\bseen again\b": "reproduced",
    r"\bcertifying (example|row|set)": "certification examples, certification set",
    r"\bdrawn (anew|once|network|weight)": "resampled for each prediction, sampled network",
    r"\bcame trained\b": "an already trained network",
    r"\bshort file\b": "compressed network",
    r"\blearnt\b": "learned; data-dependent prior",
    r"\bwidths?\b(?!=)": "prior scale",
    r"\b(pay|pays|paid|paying|owes?)\b": "covered by delta; delta is split over ...",
    r"(?<!data-)(?<!dropout-)\bfree\b": "unconstrained, or uses no delta",
    r"\bcosts?\b": "uses no delta",
    r"\bprobability with which\b": "failure probability (delta)",
    r"\bor something happened\b": "except with probability at most",
    r"\btakes? for granted\b": "Assumptions",
    r"\bin disguise\b": "say what the certificate amounts to",
    r"\bthat is your word\b": "you vouch for it",
    r"\blog-scales?\b": "rescaling factor",
    r"\bwhole numbers?\b": "integer",
    r"\bfirst weights\b": "initial weights",
    r"\bsingle examples?\b": "per-example",
    r"\b(wrong|right) (example|answer)": "misclassified, correctly classified",
    r"\bas bad as guessing\b": "no better than guessing",
    r"\blook(ed|s)? (at|for)\b": "use, search",
    r"\basked for\b": "required, threshold",
    r"\b(goes|go) on\b": "resume",
    r"\bby itself\b": "automatically",
    r"\bbeside\b": "next to, along with",
    r"\bdata sets?\b": "dataset",
    r"\bcommonest\b": "most frequent",
    r"\bnonvacuous\b": "non-vacuous",
    r"\bhyper-parameter": "hyperparameter",
    r"labell|colour|neighbour|centre|favour|(general|real|recogn|initial)is(e|ed|ing|ation)\b": "US spelling",
    r"\w+n't\b": "cannot, do not, is not",
    r"[\w}] %": "6.7%, without a space",
}
ALLOWED = {
    "What does a certificate cost?": "a question that a reader asks, before any word is agreed",
    "a closer look at memorization": "title of a chapter, after the paper",
    "A closer look at memorization in deep networks": "title of a paper",
    "Snapshot ensembles: train 1, get M for free": "title of a paper",
    "drawn network": "key of counts in certificate.json",
    "a drawn network wrong": "key of counts in certificate.json",
}
LABELLED = ("Line", "Part", "Table", "add_column")  # their first argument is a label, be it one word
ERRORS = ("TrueriskError", "VerificationError")
MOST_WORDS = 25  # of an error message; a value that is filled in counts as one
MOST_LETTERS = 70  # of the help of an option
NO_BEGINNING = {"a", "an", "the", "of", "as", "it", "its", "what", "where", "which", "how", "no", "same", "if", "with"}


def faults(text: str, but: tuple[str, ...] = ()) -> list[str]:
    """What is wrong with a text, and what to write in its place.

    >>> faults("The floor is 5 % and can't be lower.")  # doctest: +NORMALIZE_WHITESPACE
    ["'floor': hold-out baseline", "'can't': cannot, do not, is not", "'5 %': 6.7%, without a space"]
    """
    hits = ((re.search(pattern, text, re.IGNORECASE), use) for pattern, use in BANNED.items() if pattern not in but)
    return [f"'{hit[0]}': {use}" for hit, use in hits if hit]


def modules() -> list[str]:
    found = [path.relative_to(HOME).as_posix() for room in ROOMS for path in sorted(HOME.glob(room))]
    assert len(found) > len(ROOMS)
    return found


def strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of every string that is text: of an f-string as a whole, with {} for each value."""
    quiet = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
    quiet |= {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)} - {
        id(node) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)
    }
    labels = {id(call.args[0]) for call in calls(tree, LABELLED)}
    for node in ast.walk(tree):
        text = None if id(node) in quiet else spelled(node)
        if text is not None and text not in ALLOWED and (" " in text.strip() or id(node) in labels):
            yield node.lineno, text


def spelled(node: ast.AST) -> str | None:
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def calls(tree: ast.AST, names: tuple[str, ...]) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in names:
                yield node


def text_of(template: str) -> str:
    """A template without code, styles and tags.

    >>> text_of('<p class="floor">{% if floor %}The {{ floor }} is <b>here</b>{% endif %}</p>')
    'The is here'
    """
    bare = re.sub(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}|<(style|script)\b.*?</\1>|<[^>]*>", " ", template, flags=re.DOTALL)
    return " ".join(bare.split())


@pytest.mark.parametrize("module", modules())
def test_agreed_words(module):
    tree = ast.parse((HOME / module).read_text())
    but = UNITS if module.startswith("lab/") else ()
    found = [f"{module}:{line}: {text!r}: {fault}" for line, text in strings(tree) for fault in faults(text, but)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("module", modules())
def test_error_messages(module):
    """One short sentence that starts in lower case."""
    for call in calls(ast.parse((HOME / module).read_text()), ERRORS):
        text = spelled(call.args[0])
        if text is None:
            continue
        where = f"{module}:{call.lineno}: {text!r}"
        assert len(text.split()) <= MOST_WORDS, f"{where} has more than {MOST_WORDS} words"
        assert text.endswith((".", "{}")), f"{where} does not end with a period"
        assert not text[0].isupper(), f"{where} starts with a capital: it follows 'error:'"


def test_templates():
    found = [f"{name}: {each}" for name in TEMPLATES for each in faults(text_of(_template(name)))]
    assert not found, "\n".join(found)


def _template(name: str) -> str:
    return (HOME / "report" / "templates" / name).read_text()


@pytest.mark.parametrize("command", COMMANDS)
def test_help_as_printed(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    shown = CliRunner().invoke(app, [command, "--help"])
    assert shown.exit_code == 0
    found = faults(" ".join(shown.output.split()))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_options(command):
    """A short noun phrase or imperative that makes sense alone."""
    group = typer.main.get_command(app)
    made = group.commands[command]
    listed = {each.name: each.help for each in made.get_params(click.Context(made)) if getattr(each, "help", None)}
    assert len(listed) > 5
    for name, text in listed.items():
        assert len(text) <= MOST_LETTERS, f"--{name}: {text!r} has {len(text)} characters"
        assert text.endswith("."), f"--{name}: {text!r} does not end with a period"
        assert text[0].isupper(), f"--{name}: {text!r} does not start with a capital"
        assert text.split()[0].lower() not in NO_BEGINNING, f"--{name}: {text!r} starts with no verb or noun"


def test_every_declared_option_is_listed():
    group = typer.main.get_command(app)
    made = group.commands["certify"]
    listed = {each.name for each in made.get_params(click.Context(made))}
    declared = {flag.name for kind in (Request, *METHODS.values()) for flag in flags(kind)}
    assert declared <= listed


@pytest.mark.parametrize("text", ["Baseline", "the data-free prior", "6.7%", "uses no delta", "50% of"])
def test_good_words_pass(text):
    assert faults(text) == []


@pytest.mark.parametrize("text", ["the floor", "Labelled", "not free: it", "{} % of", "certifying examples", "isn't"])
def test_old_words_are_found(text):
    assert faults(text) != []
