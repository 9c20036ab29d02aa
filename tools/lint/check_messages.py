#!/usr/bin/env python3
"""Checks or lists the messages of the library and the tools: every error, warning and help text.

usage: check_messages.py [ROOT]           reports messages that occur twice, and words that the section "English" of
                                          the architecture page excludes
       check_messages.py --list [ROOT]    prints every message as `file:line: text`, for review

A message is a string literal with several words. Adjacent literals are one message. In a raw literal, such as a help
text, each line is one message.
"""

import collections
import pathlib
import re
import sys

import sources

FOLDERS = ("codegen/", "runtime/", "tools/minuet/", "tools/bench/study/")
TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>\w*)\((?P<raw>.*?)\)(?P=mark)"|"(?P<text>(?:\\.|[^"\\\n])*)"'
    r"|'(?:\\.|[^'\\\n])+'|\s+|(?P<code>.)", re.DOTALL)
ESCAPES = {"\\n": "\n", "\\t": "\t"}
# Matches two words with a blank between them. A placeholder such as {0} counts as a word.
PROSE = re.compile(r"[A-Za-z']{2,}[,;:]? +[A-Za-z('{]")
KEPT_OUT = re.compile(r"\b(who|whoever|whom|nobody|somebody|anybody|is told|is no more|but for|keepers?|askers?"
                      r"|late words|R\d{1,2})\b", re.IGNORECASE)
LEAST_WORDS_OF_A_DUPLICATE = 4

Message = collections.namedtuple("Message", "path line text")


def literals(text):
    """Yields (line, text) for each literal, and for each line of a raw literal. Adjacent literals are joined."""
    joined, line = None, 1
    for token in TOKEN.finditer(text):
        if token["text"] is not None:
            content = re.sub(r"\\.", lambda escape: ESCAPES.get(escape[0], escape[0][1]), token["text"])
            joined = (joined[0], joined[1] + content) if joined else (line, content)
        elif joined and (token["code"] or token["raw"] is not None):
            yield joined
            joined = None
        if token["raw"] is not None:
            yield from enumerate(token["raw"].split("\n"), line)
        line += token[0].count("\n")


def messages(root):
    for path in sources.code_files(root):
        if not path.as_posix().startswith(FOLDERS):
            continue
        for line, text in literals((root / path).read_text(encoding="utf-8")):
            if PROSE.search(text):
                yield Message(path.as_posix(), line, text.strip())


def check(root):
    places = collections.defaultdict(list)
    for path, line, text in messages(root):
        for word in KEPT_OUT.findall(text):
            yield f"{path}:{line}: '{word}' in \"{text}\""
        # An example of a command line may occur in several help texts.
        is_example = text.startswith("minuet ")
        if len(text.split()) >= LEAST_WORDS_OF_A_DUPLICATE and not is_example:
            places[text].append(f"{path}:{line}")
    for text, where in places.items():
        if len(where) > 1:
            yield f"{', '.join(where)}: the same message: \"{text}\""


def main():
    arguments = sys.argv[1:]
    is_list = arguments[:1] == ["--list"]
    if is_list:
        arguments = arguments[1:]
    root = pathlib.Path(arguments[0]) if arguments else pathlib.Path(__file__).resolve().parents[2]
    if is_list:
        for path, line, text in messages(root):
            print(f"{path}:{line}: {text}")
        return 0
    return sources.report("messages", list(check(root)))


if __name__ == "__main__":
    sys.exit(main())
