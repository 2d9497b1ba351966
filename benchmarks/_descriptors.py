"""SIFT-like vectors: gradient histograms of patches from synthetic images, the same by seed.

The images are dead leaves: discs of power-law radius that hide each other, each with its own grey
level, shading and texture, then noise and blur; edges, scales and contrasts spread as in
photographs. The descriptors follow Lowe's recipe (2004, section 6), but keypoints are drawn by
local contrast instead of being detected. Of a million, 20 % of the entries are 0 and the mean is
27; 58 of the 128 principal axes hold 90 % of the variance, and the effective dimension (sum of
eigenvalues)^2 / (sum of their squares) is 28; as unit vectors, queries from other images are 0.46
from their nearest one and 1.03 from a random one.
"""

from pathlib import Path

import numpy as np
from scipy import fft, ndimage

SIDE = 512  # pixels of a square image
PER_IMAGE = 2400  # keypoints
OCTAVES = 3  # of scale, each with a third of the keypoints
PATCH = 16  # samples across a patch
CELLS = 4
ANGLES = 8
RECIPE = 1  # names the cached files: raise it when the vectors change


def descriptors(count, seed, folder=None):
    """`count` vectors (float32, 128 integers from 0 to 255) of images that `seed` makes.

    Other seeds give other images, so queries take another seed than the base. A smaller count
    gives the first rows of a larger one. folder: where an array is kept for the next call.
    """
    if folder is None:
        return _made(count, seed).astype(np.float32)
    file = Path(folder) / f"descriptors-{RECIPE}-{seed}-{count}.npy"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(".part.npy")  # a broken run leaves no file that looks whole
        np.save(partial, _made(count, seed))
        partial.rename(file)
    return np.load(file).astype(np.float32)


def _made(count, seed):
    out = np.empty((count, CELLS * CELLS * ANGLES), np.uint8)
    for start in range(0, count, PER_IMAGE):
        rng = np.random.default_rng([seed, start // PER_IMAGE])
        part = out[start : start + PER_IMAGE]
        part[...] = _described(_image(rng), rng)[: len(part)]
    return out


def _image(rng):
    """A dead-leaves image: grey, a slope of grey and a texture for each disc, blur and noise."""
    leaves = _leaves(rng)
    kinds = leaves.max() + 1
    y, x = np.mgrid[:SIDE, :SIDE].astype(np.float32)
    grey = rng.random(kinds, np.float32)
    slope = (0.6 / SIDE) * rng.standard_normal((2, kinds), np.float32)
    contrast = 0.12 * rng.random(kinds, np.float32) ** 2
    textures = np.stack([_texture(rng, decay) for decay in (0.0, 0.5, 1.0, 1.5)])
    which = rng.integers(len(textures), size=kinds)
    texture = np.take_along_axis(textures, which[leaves][None], 0)[0]
    image = grey[leaves] + slope[0][leaves] * y + slope[1][leaves] * x + contrast[leaves] * texture
    return ndimage.gaussian_filter(image, 0.7) + 0.01 * rng.standard_normal(y.shape, np.float32)


def _leaves(rng, count=4000, smallest=4, largest=160):
    """Which disc is seen at each pixel: radii fall as r^-3, later discs hide earlier ones."""
    span = 1 - (smallest / largest) ** 2
    radii = (smallest / np.sqrt(1 - span * rng.random(count))).astype(int)
    masks = {r: _disc(r) for r in np.unique(radii)}
    observed = np.zeros((SIDE + 3 * largest, SIDE + 3 * largest), np.int32)
    corners = rng.integers(largest, SIDE + 2 * largest, (count, 2)) - radii[:, None]
    for i, (r, (y, x)) in enumerate(zip(radii, corners, strict=True)):
        observed[y : y + 2 * r + 1, x : x + 2 * r + 1][masks[r]] = i + 1
    edge = largest * 3 // 2
    return observed[edge : edge + SIDE, edge : edge + SIDE]


def _disc(radius):
    y, x = np.mgrid[-radius : radius + 1, -radius : radius + 1]
    return y * y + x * x <= radius * radius


def _texture(rng, decay):
    """Noise whose amplitude falls as frequency^-decay, stretched along one direction."""
    angle, stretch = rng.random() * np.pi, 1 + 3 * rng.random()
    fy, fx = fft.fftfreq(SIDE)[:, None], fft.rfftfreq(SIDE)[None, :]
    along, across = np.cos(angle) * fy + np.sin(angle) * fx, np.cos(angle) * fx - np.sin(angle) * fy
    frequency = np.hypot(along * stretch, across / stretch) + 1 / SIDE
    amplitude = frequency**-decay * np.exp(-((frequency / 0.25) ** 2))
    noise = fft.rfft2(rng.standard_normal((SIDE, SIDE), np.float32))
    noise = fft.irfft2(noise * amplitude.astype(np.float32), (SIDE, SIDE))
    return noise / noise.std()


def _described(image, rng):
    """The descriptors of keypoints from every octave, in random order."""
    parts = []
    for _ in range(OCTAVES):
        smooth = ndimage.gaussian_filter(image, 1.6)
        parts.append(_octave(_gradients(smooth), PER_IMAGE // OCTAVES, rng))
        image = smooth[::2, ::2]
    return rng.permutation(np.concatenate(parts))


def _gradients(image):
    """Horizontal + i vertical differences."""
    down, right = np.gradient(image)
    return (right + 1j * down).astype(np.complex64)


def _octave(field, count, rng):
    step = np.float32(2) ** rng.random(count).astype(np.float32)  # pixels between samples
    y, x = _keypoints(field, count, rng)
    angle = _dominant(_patches(field, y, x, step, np.ones(count, np.complex64)))
    turn = np.exp(1j * angle).astype(np.complex64)
    turned = _patches(field, y, x, step, turn) * np.conj(turn)[:, None]
    return _normalised(_histograms(turned))


def _keypoints(field, count, rng, margin=17):
    """Places drawn with a chance that grows with the contrast around them, off the border."""
    energy = ndimage.gaussian_filter(np.abs(field) ** 2, 2)[margin:-margin, margin:-margin]
    chance = np.cumsum(np.sqrt(energy).ravel(), dtype=float)
    flat = np.searchsorted(chance, rng.random(count) * chance[-1])
    y, x = np.unravel_index(np.minimum(flat, chance.size - 1), energy.shape)
    jitter = rng.random((2, count)).astype(np.float32)
    return y + margin + jitter[0], x + margin + jitter[1]


def _patches(field, y, x, step, turn):
    """Gradients at 16 x 16 places around each keypoint, the grid turned, bilinear."""
    ticks = np.arange(PATCH, dtype=np.float32) - (PATCH - 1) / 2
    grid = (ticks[None, :] + 1j * ticks[:, None]).astype(np.complex64).ravel()
    place = grid * (step * turn)[:, None] + (x + 1j * y).astype(np.complex64)[:, None]
    # A keypoint near the border sees the border's gradients repeated.
    rows = np.clip(place.imag, 0, field.shape[0] - 1.001)
    columns = np.clip(place.real, 0, field.shape[1] - 1.001)
    top, left = rows.astype(np.int32), columns.astype(np.int32)
    down, right = rows - top, columns - left
    at, flat, wide = top * field.shape[1] + left, field.ravel(), field.shape[1]
    above = flat[at] * (1 - right) + flat[at + 1] * right
    below = flat[at + wide] * (1 - right) + flat[at + wide + 1] * right
    return above * (1 - down) + below * down


def _window(sigma):
    ticks = (np.arange(PATCH, dtype=np.float32) - (PATCH - 1) / 2) ** 2
    return np.exp(-(ticks[:, None] + ticks[None, :]) / (2 * sigma**2)).ravel().astype(np.float32)


def _dominant(patches, bins=36):
    """The angle of the highest place of a smoothed histogram, interpolated."""
    weight = np.abs(patches) * _window(PATCH / 4)
    which = np.floor(np.angle(patches) * (bins / (2 * np.pi))).astype(np.int64) % bins
    which += bins * np.arange(len(patches))[:, None]
    tally = np.bincount(which.ravel(), weight.ravel(), bins * len(patches)).reshape(-1, bins)
    for _ in range(2):
        tally = (np.roll(tally, 1, 1) + tally + np.roll(tally, -1, 1)) / 3
    rows, peak = np.arange(len(tally)), tally.argmax(1)
    left, top, right = (tally[rows, (peak + shift) % bins] for shift in (-1, 0, 1))
    bend = left - 2 * top + right
    shift = 0.5 * (left - right) / np.where(bend == 0, 1, bend)
    return ((peak + 0.5 + shift) * (2 * np.pi / bins)).astype(np.float32)


def _histograms(patches):
    """4 x 4 cells of 8 angles; a sample is shared by its nearest cells and angles, linearly."""
    place = np.angle(patches) * (ANGLES / (2 * np.pi))
    low = np.floor(place)
    share, weight = place - low, np.abs(patches)
    low = low.astype(np.int64).ravel() % ANGLES
    spread = np.zeros((patches.size, ANGLES), np.float32)
    rows = np.arange(patches.size)
    spread[rows, low] = (weight * (1 - share)).ravel()
    spread[rows, (low + 1) % ANGLES] = (weight * share).ravel()
    return np.matmul(_pooling(), spread.reshape(-1, PATCH * PATCH, ANGLES)).reshape(
        len(patches), -1
    )


def _pooling():
    """The weight of each sample in each cell, Gaussian window included."""
    ticks = (np.arange(PATCH) + 0.5) * (CELLS / PATCH) - 0.5
    near = np.maximum(0, 1 - np.abs(ticks[None, :] - np.arange(CELLS)[:, None]))
    both = near[:, None, :, None] * near[None, :, None, :]
    return (both.reshape(CELLS**2, -1) * _window(PATCH / 2)).astype(np.float32)


def _normalised(histograms):
    """Unit length, no entry above 0.2, unit length again, and into integers up to 255."""
    clipped = np.minimum(_unit(histograms), 0.2)
    return np.minimum(np.rint(512 * _unit(clipped)), 255).astype(np.uint8)


def _unit(rows):
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
