"""Draws docs/drawings/*.svg, one for each room: lines and words readable on white and on black."""

from html import escape
from pathlib import Path

DOCS = Path(__file__).parent
WIDTH = 720
INK, BLUE, ORANGE, GREEN = "#7a7f87", "#3b82c4", "#d9672b", "#2b9a86"
CHARACTER = 6.7  # pixels of one at size 12, about
HEAD = (
    '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    f'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="{INK}"/></marker>'
)


def words(x, y, text, colour=INK, size=12, anchor="middle", weight="normal"):
    return (
        f'<text x="{x:g}" y="{y:g}" fill="{colour}" font-size="{size}" text-anchor="{anchor}" '
        f'font-weight="{weight}">{escape(text)}</text>'
    )


def box(x, y, width, height, title, *lines, colour=BLUE):
    """A named thing; further lines say what it does."""
    shape = (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="7" fill="{colour}" '
        f'fill-opacity="0.12" stroke="{colour}" stroke-width="1.4"/>'
    )
    top = y + height / 2 - 7.5 * len(lines) + 4
    said = [words(x + width / 2, top, title, colour, 13, weight="600")]
    said += [words(x + width / 2, top + 16 * (n + 1), each) for n, each in enumerate(lines)]
    return [shape, *said]


def arrow(x1, y1, x2, y2, text="", colour=INK, dashed=False):
    dashes = ' stroke-dasharray="5 4"' if dashed else ""
    line = (
        f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{colour}" '
        f'stroke-width="1.4"{dashes} marker-end="url(#tip)"/>'
    )
    middle = [words((x1 + x2) / 2, (y1 + y2) / 2 - 6, text, size=11)] if text else []
    return [line, *middle]


def cells(x, y, values, marked=(), size=22, colour=BLUE):
    """A table of cells; those marked, as (row, column), are filled."""
    parts = []
    for r, row in enumerate(values):
        for c, value in enumerate(row):
            filled = (r, c) in marked
            parts.append(
                f'<rect x="{x + c * size:g}" y="{y + r * size:g}" width="{size}" height="{size}" '
                f'fill="{colour}" fill-opacity="{0.45 if filled else 0.06}" stroke="{colour}" '
                f'stroke-opacity="0.6"/>'
            )
            if value != "":
                middle = x + (c + 0.5) * size, y + (r + 0.5) * size + 4
                parts.append(words(*middle, str(value), size=11))
    return parts


def flow(y, steps, height=64, gap=26, colours=()):
    """Boxes from left to right, as wide as their words, and arrows between them."""
    widths = [
        max(len(step[0]) * 1.25, *(len(each) for each in step[1:]), 6) * CHARACTER + 16
        for step in steps
    ]
    free = WIDTH - sum(widths) - gap * (len(steps) - 1)
    assert free >= 0, f"{steps[0][0]}: {-free:.0f} pixels too wide"
    x, parts = free / 2, []
    for n, (step, width) in enumerate(zip(steps, widths, strict=True)):
        colour = colours[n] if n < len(colours) else BLUE
        parts += box(x, y, width, height, *step, colour=colour)
        if n + 1 < len(steps):
            parts += arrow(x + width, y + height / 2, x + width + gap, y + height / 2)
        x += width + gap
    return parts


def foundation():
    return 92, flow(
        14,
        [
            ("data", "files, frames,", "streams"),
            ("columns", "Arrow batches"),
            ("core", "one 64-bit hash", "for each key"),
            ("kernels", "compiled loops,", "arrays in and out"),
            ("rooms above", "sketches, models"),
        ],
        colours=(INK, INK, BLUE, ORANGE, GREEN),
    )


def privacy():
    steps = [
        ("request", "epsilon, delta,", "who pays"),
        ("plan", "the smallest noise", "that keeps both"),
        ("charge", "on the disk,", "in the ledger"),
        ("exact noise", "integers only"),
        ("release", "noisy cells,", "statement"),
    ]
    parts = flow(14, steps, gap=24, colours=(INK, BLUE, ORANGE, BLUE, GREEN))
    parts += arrow(372, 78, 372, 112, colour=ORANGE)
    parts.append(words(372, 128, "does not fit: BudgetExceeded, nothing is drawn", ORANGE))
    return 142, parts


def sketch():
    before = [[2, 0, 5, 1, 0, 3], [0, 4, 1, 0, 6, 0], [1, 3, 0, 7, 0, 0]]
    after = [[2, 0, 6, 1, 0, 3], [0, 4, 1, 0, 7, 0], [1, 4, 0, 7, 0, 0]]
    hit = {(0, 2), (1, 4), (2, 1)}
    parts = box(8, 46, 84, 44, "“tea”", colour=INK)
    for row in range(3):
        parts += arrow(92, 68, 142, 45 + 23 * row)
    parts += [words(117, 24, "three hashes", size=11)]
    parts += cells(146, 34, after, hit)
    parts.append(words(212, 120, "update: + 1 in each row"))
    parts.append(words(212, 136, "estimate: the smallest, 4"))
    parts += cells(338, 34, before, size=20, colour=GREEN)
    parts.append(words(468, 68, "+", size=18))
    parts += cells(
        482, 34, [[1] * 6, [0, 2, 0, 1, 0, 3], [2, 0, 1, 0, 3, 0]], size=20, colour=GREEN
    )
    parts.append(words(614, 68, "=", size=18))
    parts += box(628, 42, 84, 44, "both", "exactly", colour=GREEN)
    parts.append(words(470, 120, "merge: add the cells of two machines", GREEN))
    return 146, parts


def engine():
    parts = []
    for n in range(4):
        y = 12 + 34 * n
        parts += box(8, y, 110, 26, f"partition {n + 1}", colour=INK)
        parts += arrow(118, y + 13, 178, y + 13, "" if n else "update")
        parts += box(182, y, 92, 26, "sketch", colour=BLUE)
    for n in range(2):
        y = 29 + 68 * n
        for each in (0, 1):
            parts += arrow(274, 25 + 34 * (2 * n + each), 356, y + 13)
        parts += box(360, y, 92, 26, "merged", colour=BLUE)
        parts += arrow(452, y + 13, 528, 76)
    parts += box(
        532, 48, 180, 56, "one sketch", "the same bits on", "threads and on Spark", colour=GREEN
    )
    return 154, parts


def retrieve():
    bits = [["1", "0", "0", "1", "1", "0", "1", "0"]]
    parts = box(8, 24, 110, 60, "vector", "256 bytes", colour=INK)
    parts += arrow(118, 54, 146, 54)
    parts += cells(150, 44, bits, {(0, n) for n in (0, 3, 4, 6)}, size=20)
    parts.append(words(230, 84, "code: 32 bytes, and a length"))
    parts += arrow(314, 54, 342, 54)
    parts += box(346, 24, 132, 60, "scan", "all codes, by", "counting bits", colour=BLUE)
    parts += arrow(478, 54, 506, 54)
    parts += box(510, 24, 90, 60, "short list", "1,000", colour=BLUE)
    parts += arrow(600, 54, 624, 54)
    parts += box(628, 24, 84, 60, "rank", "the best k", colour=GREEN)
    return 102, parts


def profile():
    clear = "0110010010010100"
    noisy = "0100011010110110"
    flipped = {(0, n) for n in range(16) if clear[n] != noisy[n]}
    ones = {(0, n) for n in range(16) if clear[n] == "1"}
    parts = box(8, 18, 120, 60, "profile", "items of", "one user", colour=INK)
    parts += arrow(128, 48, 170, 48, "hash")
    parts += cells(174, 38, [list(clear)], ones, size=20)
    parts.append(words(334, 28, "Bloom filter, secret"))
    parts += arrow(494, 48, 552, 48, "flip")
    parts.append(words(522, 66, "each, p", size=11))
    parts += box(556, 26, 156, 44, "random flips", "exact coins", colour=ORANGE)
    parts += arrow(634, 70, 500, 112)
    parts += cells(174, 102, [list(noisy)], flipped, size=20, colour=ORANGE)
    parts.append(
        words(334, 142, f"released; {len(flipped)} bits are flipped, and nobody knows which")
    )
    return 154, parts


def attack():
    parts = box(8, 12, 150, 44, "release", "noisy bits", colour=ORANGE)
    parts += box(
        8, 64, 150, 56, "side knowledge", "what is popular,", "what goes together", colour=INK
    )
    parts += arrow(158, 34, 200, 56)
    parts += arrow(158, 92, 200, 70)
    parts += box(204, 34, 150, 58, "decoder", "likelihood of whole", "profiles", colour=BLUE)
    parts += arrow(354, 63, 384, 63)
    parts += box(388, 34, 120, 58, "scores", "of every item,", "best first", colour=BLUE)
    parts += arrow(508, 63, 538, 63)
    parts += box(
        542,
        34,
        170,
        58,
        "beside the truth",
        "how much was rebuilt,",
        "for the curator",
        colour=GREEN,
    )
    return 126, parts


def recommend():
    table = [[""] * 9 for _ in range(3)]
    parts = box(8, 16, 104, 40, "user 7", colour=INK)
    parts += box(8, 72, 104, 40, "item 94", colour=INK)
    users, items = {(0, 1), (1, 6), (2, 3)}, {(0, 5), (1, 2), (2, 7)}
    for r, c in sorted(users):
        parts += arrow(112, 36, 178 + 22 * c, 42 + 22 * r, colour=BLUE)
    for r, c in sorted(items):
        parts += arrow(112, 92, 178 + 22 * c, 46 + 22 * r, colour=ORANGE)
    parts += cells(168, 31, table, users)
    parts += [each for each in cells(168, 31, table, items, colour=ORANGE) if '"0.45"' in each]
    parts.append(words(267, 118, "one count sketch holds all vectors"))
    parts += arrow(366, 64, 400, 64)
    parts += box(404, 36, 136, 56, "read vectors", "mean of the rows,", "signs undone", colour=BLUE)
    parts += arrow(540, 64, 568, 64)
    parts += box(
        572, 36, 140, 56, "product, then list", "an event changes", "a few cells", colour=GREEN
    )
    return 132, parts


def telemetry():
    client = [
        ("value", "“dark”"),
        ("permanent noise", "same for ever"),
        ("instant noise", "fresh each time"),
        ("report", "a few bytes"),
    ]
    parts = flow(22, client, height=48, colours=(INK, ORANGE, ORANGE, BLUE))
    server = [
        ("counts", "of bits, by cohort"),
        ("decode", "least squares"),
        ("table", "estimates, intervals, what is found"),
    ]
    parts += flow(116, server, height=48, colours=(BLUE, BLUE, GREEN))
    parts.append(words(8, 14, "on the device", anchor="start", size=11))
    parts.append(words(8, 108, "on the server", anchor="start", size=11))
    line = f'<line x1="0" y1="92" x2="{WIDTH}" y2="92" stroke="{INK}" stroke-dasharray="2 5"/>'
    parts += [line, *arrow(560, 70, 150, 112, dashed=True)]
    return 176, parts


def density():
    near = [["", "1", "", ""], ["2", "5", "3", ""], ["", "4", "2", "1"], ["", "", "1", ""]]
    noisy = [
        ["1", "0", "-1", "0"],
        ["3", "4", "3", "1"],
        ["-1", "5", "2", "0"],
        ["0", "-1", "2", "1"],
    ]
    parts = box(8, 36, 100, 56, "rows", "clipped to", "public bounds", colour=INK)
    parts += arrow(108, 64, 140, 64)
    parts += cells(144, 20, near, {(1, 1), (2, 1)})
    parts.append(words(188, 126, "counts by cell"))
    parts += arrow(232, 64, 282, 64, "noise")
    parts += cells(286, 20, noisy, {(1, 1), (2, 1)}, colour=ORANGE)
    parts.append(words(330, 126, "the release"))
    for n, (title, text) in enumerate(
        [("density", "how many near here"), ("class", "which is likelier"),
         ("number", "what is expected"), ("rows", "drawn like these")]
    ):  # fmt: skip
        y = 4 + 32 * n
        parts += arrow(374, 64, 440, y + 13)
        parts += box(444, y, 96, 26, title, colour=GREEN)
        parts.append(words(552, y + 17, text, anchor="start"))
    return 138, parts


def mine():
    parts = box(8, 36, 120, 64, "file", "larger than", "memory", colour=INK)
    for n in range(3):
        y = 10 + 42 * n
        parts += arrow(128, 68, 170, y + 16)
        parts += box(174, y, 150, 32, f"chunk {n + 1}: frequent", colour=BLUE)
        parts += arrow(324, y + 16, 366, 68)
    parts += box(370, 40, 130, 56, "candidates", "the union of all", colour=BLUE)
    parts += arrow(500, 68, 530, 68)
    parts += box(
        534, 40, 178, 56, "second pass", "counts them exactly:", "nothing is missed", colour=GREEN
    )
    return 136, parts


def service():
    parts = flow(
        14,
        [("events", "over HTTP"), ("log", "on the disk, then", "acknowledged"),
         ("trainer", "learns in a process", "of its own"), ("model", "swapped whole"),
         ("lists", "to their users")],
        colours=(INK, ORANGE, BLUE, BLUE, GREEN),
    )  # fmt: skip
    parts += flow(
        104,
        [("whatever else leaves", "counts, neighbours, sketches"), ("ledger", "charged first"),
         ("release", "same bytes for every retry")],
        height=48, colours=(INK, ORANGE, GREEN),
    )  # fmt: skip
    return 164, parts


DRAWINGS = {
    each.__name__: each
    for each in (
        foundation, privacy, sketch, engine, retrieve, profile, attack, recommend, telemetry,
        density, mine, service,
    )
}  # fmt: skip


def svg(name):
    """The text of one drawing."""
    height, parts = DRAWINGS[name]()
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" font-family="system-ui, sans-serif">'
    )
    return "\n".join([head, f"<defs>{HEAD}</defs>", *parts, "</svg>"]) + "\n"


def main():
    for name in DRAWINGS:
        (DOCS / "drawings" / f"{name}.svg").write_text(svg(name))


if __name__ == "__main__":
    main()
