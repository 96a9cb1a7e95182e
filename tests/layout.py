#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The floor plan of lib/, held against the one that doc/architecture.md allows.

layout.py includes SRCDIR           a room includes only itself and rooms below it
layout.py calls SRCDIR BUILDDIR     a room's objects take symbols only from itself and rooms below it;
                                    no circle of files across rooms, none of more than six within one
layout.py names SRCDIR              function names of one word, names of files, statics in two files

Prints what is wrong, one line each; exit status 1 if anything is.
"""
import collections
import os
import re
import subprocess
import sys

CIRCLE_MAX = 6
KV_ROOMS = ("base", "core", "stats")
NO_OBJECT = {"lib/preload/mlx5.c"}  # a library of its own, without code
ONE_WORD_MAX_PERCENT = 1
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)
wrong = []


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def rooms(srcdir):
    """The allowed order stands in doc/architecture.md as `base < core < ...`, once."""
    order = re.findall(r"^    (\w+(?: < \w+)+)$", read(f"{srcdir}/doc/architecture.md"), re.M)
    if len(order) != 1:
        sys.exit("layout: doc/architecture.md must have the order of the rooms, once")
    order = order[0].split(" < ")
    have = sorted(d for d in os.listdir(f"{srcdir}/lib") if os.path.isdir(f"{srcdir}/lib/{d}"))
    if sorted(order) != have:
        sys.exit(f"layout: the order names {sorted(order)}, lib/ has {have}")
    return order


def sources(srcdir, top, endings=(".c", ".h", ".S")):
    for folder, _, names in sorted(os.walk(f"{srcdir}/{top}")):
        for name in sorted(names):
            if name.endswith(endings):
                yield os.path.relpath(f"{folder}/{name}", srcdir)


def room_of(path):
    return path.split("/")[1]


def room_of_include(target, order):
    """The room of what is included; None: the system's, config.h, or another folder's."""
    parts = os.path.normpath(target).split("/")
    return parts[1] if parts[0] == "lib" and len(parts) > 2 and parts[1] in order else None


def check_includes(srcdir):
    order = rooms(srcdir)
    ours = {name for name in os.listdir(srcdir) if os.path.isdir(f"{srcdir}/{name}")}
    for folder, _, names in sorted(os.walk(f"{srcdir}/lib")):
        for name in sorted(names):
            path = os.path.relpath(f"{folder}/{name}", srcdir)
            if name == "local.mk" or name.endswith((".map", ".o", ".lo", ".la")):
                continue
            if not name.endswith((".c", ".h", ".S")) or path.count("/") != 2:
                wrong.append(f"{path} is no source file of a room")
                continue
            for target in INCLUDE.findall(read(f"{srcdir}/{path}")):
                room = room_of_include(target, order)
                if room and order.index(room) > order.index(room_of(path)):
                    wrong.append(f"{path} includes {target}: {room} is above {room_of(path)}")
                elif room or target == "config.h" or os.path.normpath(target).split("/")[0] not in ours:
                    continue
                elif target != "kv/client.h" or room_of(path) != "session":
                    wrong.append(f"{path} includes {target}, which is not of lib/")
    for path in sources(srcdir, "kv"):
        for target in INCLUDE.findall(read(f"{srcdir}/{path}")):
            room = room_of_include(target, order)
            if room and room not in KV_ROOMS:
                wrong.append(f"{path} includes {target}: kv/ may include {' and '.join(KV_ROOMS)} only")


BUILDS = ("libshift_la-", "libshiftrooms_la-"), ("libshift_hooks_la-",)  # the second has pause points


def objects(srcdir, builddir, build):
    """source -> object: of libshift.so as it is built, and of the readers of lib/stats."""
    found = {}
    for path in sources(srcdir, "lib", (".c", ".S")):
        folder, name = os.path.split(path)
        name, ending = name.rsplit(".", 1)
        prefixes = build + ("libshiftnic_la-", "libshiftreport_la-", "")
        for prefix in prefixes if ending == "c" else ("",):
            candidate = f"{builddir}/{folder}/.libs/{prefix}{name}.o"
            if os.path.exists(candidate):
                found[path] = candidate
                break
        else:
            if path not in NO_OBJECT:
                wrong.append(f"{path} has no object in {builddir}")
    return found


def symbols(path):
    defined, taken = set(), set()
    for line in subprocess.check_output(["nm", path], text=True).splitlines():
        kind, name = line.split()[-2:]
        if kind in "Uwv":
            taken.add(name.split("@")[0])
        elif kind.isupper():
            defined.add(name.split("@")[0])
    return defined, taken


def circles(edges):
    """Strongly connected components of more than one file (Tarjan)."""
    index, low, stack, result = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for to in edges[node]:
            if to not in index:
                visit(to)
                low[node] = min(low[node], low[to])
            elif to in stack:
                low[node] = min(low[node], index[to])
        if low[node] == index[node]:
            at = stack.index(node)
            group = stack[at:]
            del stack[at:]
            if len(group) > 1:
                result.append(sorted(group))

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return result


def check_calls(srcdir, builddir):
    for build in BUILDS:
        if build == BUILDS[1] and not os.path.exists(f"{builddir}/lib/.libs/libshift-hooks.so"):
            continue  # make check builds it
        check_build(rooms(srcdir), objects(srcdir, builddir, build))


def check_build(order, found):
    owner, taken = {}, {}
    for path, obj in found.items():
        defined, taken[path] = symbols(obj)
        for name in defined:
            owner.setdefault(name, path)
    edges = collections.defaultdict(set)
    for path in found:
        for name in taken[path]:
            to = owner.get(name)
            if to is None or to == path:
                continue
            edges[path].add(to)
            if order.index(room_of(to)) > order.index(room_of(path)):
                wrong.append(f"{path} takes {name} of {to}: {room_of(to)} is above {room_of(path)}")
        edges[path] |= set()
    for group in circles(edges):
        if len({room_of(path) for path in group}) > 1:
            wrong.append("a circle across rooms: " + " ".join(group))
        elif len(group) > CIRCLE_MAX:
            wrong.append(f"a circle of {len(group)} files: " + " ".join(group))
        elif "-v" in sys.argv:
            print("circle:", " ".join(group))


ATTRIBUTE = re.compile(r"__attribute__\(\(.*?\)\)+ ?", re.S)
FUNCTION = re.compile(r"^(?:[A-Za-z_][\w \t*,]*?[ *\t\n])(\w+)\(([^;{}]*?)\)\s*\n\{", re.M)


def check_names(srcdir):
    count, one_word, statics = 0, [], collections.defaultdict(set)
    for path in sources(srcdir, "lib", (".c", ".h")):
        for match in FUNCTION.finditer(ATTRIBUTE.sub("", read(f"{srcdir}/{path}"))):
            name = match.group(1)
            count += 1
            if "_" not in name:
                one_word.append(f"{name} ({path})")
            if match.group(0).startswith("static") and path.endswith(".c"):
                statics[name].add(path)
    if len(one_word) * 100 > count * ONE_WORD_MAX_PERCENT:
        wrong.append(f"{len(one_word)} of {count} functions have names of one word: " + ", ".join(one_word))
    for name, paths in sorted(statics.items()):
        if len(paths) > 1:
            wrong.append(f"{name}() stands in {' and '.join(sorted(paths))}")
    for top in ("lib", "cmd"):
        names = collections.defaultdict(list)
        for folder, _, files in sorted(os.walk(f"{srcdir}/{top}")):
            for name in files:
                names[name].append(os.path.relpath(f"{folder}/{name}", srcdir))
        for name, paths in sorted(names.items()):
            if len(paths) > 1 and name != "local.mk":
                wrong.append("two files of one name: " + " ".join(paths))


def main():
    check = {"includes": check_includes, "calls": check_calls, "names": check_names}.get(sys.argv[1])
    check(*[arg for arg in sys.argv[2:] if not arg.startswith("-")])
    for line in wrong:
        print(line)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
