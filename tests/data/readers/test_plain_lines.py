"""Lines of plain numbers are parsed to what the reader of texts makes of them, or left to it."""

import gzip

import numpy as np
import pytest

from sfumato.data import read_interactions
from sfumato.data.readers import plain_lines, ratings

HEADER = "user,item,rating,timestamp\n"
PLAIN = {
    "integers": HEADER + "1,20,5,881250949\n-2,0,-4,7\n",
    "fractions": HEADER + "1,20,4.5,881250949.5\n2,20,0.1,7\n3,7,005.25,8\n",
    "largest": HEADER + "9223372036854775807,1,1,1600000000000000000\n",
    "seventeen digits": HEADER + "1,2,0.1234567890123456,3\n",
    "no last line break": HEADER + "1,20,5,7\n2,20,5,7",
    "carriage returns": HEADER.replace("\n", "\r\n") + "1,20,5,7\r\n2,20,5,8\r\n",
    "carriage returns, cut": HEADER.replace("\n", "\r\n") + "1,20,5,7\r\n2,20,5,8",
    "two colons": "1::20::5::978300760\n2::30::4::978300761\n",
    "no header": "1\t20\t5\n2\t20\t4\n",
    "a column between": "user,title,item,rating\n1,a: b; c,20,5\n2,,30,4\n",
    "colon in a field": "user::title::item\n1::a:b::20\n",
    "quoted names": '"user","item","rating"\n1,2,3\n',
    "other order": "rating,item,user\n3,2,1\n4,5,6\n",
    "pairs twice": HEADER + "1,2,3,9\n1,2,4,8\n1,3,5,1\n1,2,5,9\n",
}
LEFT = {
    "leading zeros": HEADER + "1,007,5,7\n",
    "minus zero": HEADER + "-0,1,-0,7\n",
    "a plus": HEADER + "1,2,+5,7\n",
    "an exponent": HEADER + "1,2,1e3,7\n",
    "no digit before the point": HEADER + "1,2,.5,7\n",
    "no digit after the point": HEADER + "1,2,5.,7\n",
    "fraction of an id": HEADER + "1.0,2,5,7\n",
    "too large an id": HEADER + "9223372036854775808,2,5,7\n",
    "many digits": HEADER + "1,2,0.12345678901234567890,7\n",
    "many digits of a fraction": HEADER + "1,2,9007199254740993.5,7\n",
    "spaces": HEADER + "1,2, 5,7\n",
    "texts": HEADER + "ann,tea,5,7\n",
    "a date": HEADER + "1,2,5,2020-01-02\n",
    "quotes": HEADER + '1,"2",5,7\n',
    "a quoted line break": 'user,title,item\n1,"a\nb",2\n',
    "a name of two lines": 'user,item,"rat\ning"\n1,2,3\n',
    "other line breaks": HEADER + "1,20,5,7\r\n2,20,5,7\n",
    "a blank line": HEADER + "1,20,5,7\n\n2,20,5,7\n",
    "a blank first line": "\n" + HEADER + "1,20,5,7\n",
    "latin-1": "user,title,item\n1,caf\xe9,2\n",
    "an empty rating": HEADER + "1,2,,7\n",
    "too few fields": HEADER + "1,2,3\n1,2,3,4\n",
    "too many fields": HEADER + "1,2,3,4,5\n",
    "no number": HEADER + "1,2,3,4\n1,2,x,4\n",
}


def _outcome(path, **options):
    try:
        read = read_interactions(path, **options)
    except ValueError as error:
        return str(error)
    columns = [read.users, read.items, read.ratings, read.times]
    return [each if each is None else (each.dtype, each.tolist()) for each in columns], read.report


@pytest.mark.parametrize("name", [*PLAIN, *LEFT])
@pytest.mark.parametrize("buffer", [1 << 20, 40])
def test_plain_lines_are_read_as_texts_are(name, buffer, tmp_path, monkeypatch):
    path, taken = tmp_path / "ratings.csv", []
    path.write_bytes({**PLAIN, **LEFT}[name].encode("latin-1"))
    monkeypatch.setattr(plain_lines, "BUFFER", buffer)  # lines then end within what is read
    parse = plain_lines.read
    monkeypatch.setattr(
        plain_lines, "read", lambda *a, **o: taken.append(parse(*a, **o)) or taken[-1]
    )
    for options in ({}, {"on_error": "skip"}, {"duplicates": "keep"}):
        found = _outcome(path, **options)
        with monkeypatch.context() as texts:
            texts.setattr(ratings.plain_lines, "read", lambda *args, **options: None)
            assert found == _outcome(path, **options)
    if buffer > 40 or name in LEFT:
        assert all(each is None for each in taken) == (name in LEFT)


def test_gzip_is_plain_too_and_a_cut_one_is_refused(tmp_path):
    path = tmp_path / "ratings.csv.gz"
    packed = gzip.compress((HEADER + "1,2,3.5,4\n" * 1000).encode())
    path.write_bytes(packed)
    assert read_interactions(path, duplicates="keep").ratings.tolist() == [3.5] * 1000
    path.write_bytes(packed[:-20])
    with pytest.raises(ValueError, match="damaged or cut off"):
        read_interactions(path)


def test_all_decimal_fractions_are_rounded_as_python_does(tmp_path):
    generator, path = np.random.default_rng(0), tmp_path / "ratings.csv"
    mantissas, scales = generator.integers(0, 2**53, 2000), generator.integers(1, 15, 2000)
    words = [
        f"{m:016d}"[: 16 - s] + "." + f"{m:016d}"[16 - s :]
        for m, s in zip(mantissas, scales, strict=True)
    ]
    path.write_text("user,item,rating\n" + "".join(f"1,{i},{w}\n" for i, w in enumerate(words)))
    assert read_interactions(path).ratings.tolist() == [float(word) for word in words]
