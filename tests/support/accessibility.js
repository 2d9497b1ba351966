// What a page lacks for those who use a keyboard or a screen reader, or need contrast.

/**
 * Names of controls and pictures, headings, tables, references, sizes of targets, and the contrast
 * of each text with what is behind it (WCAG 2.2: 1.3.1, 1.4.3, 2.4.6, 2.5.8, 3.3.2, 4.1.2).
 */
function flaws() {
  const flaws = [];
  const all = (selector) => [...document.querySelectorAll(selector)];
  const shown = (node) => node.checkVisibility({ visibilityProperty: true }) && !node.closest(".sr");
  const short = (node) => node.outerHTML.slice(0, 90);
  const named = (node) => {
    const ids = (node.getAttribute("aria-labelledby") ?? "").split(" ").filter(Boolean);
    return [node.getAttribute("aria-label"), ...ids.map((id) => document.getElementById(id)?.textContent),
      ...[...(node.labels ?? [])].map((label) => label.textContent),
      node.matches("a, button, summary") ? node.textContent : ""].some((text) => text?.trim());
  };
  const expect = (good, node, what) => good || flaws.push(`${what}: ${short(node)}`);

  expect(document.documentElement.lang && document.title, document.documentElement, "language, title");
  expect(all("h1").length === 1 && all("main").length === 1, document.body, "one h1 and one main");
  all("input, select, button, a, summary, [role=img], [role=region], [role=group], nav")
    .filter(shown).forEach((node) => expect(named(node), node, "no name"));
  all("img").forEach((node) => expect(node.hasAttribute("alt"), node, "no alt"));
  all("table").filter((node) => !node.closest("[role=img]")).forEach((node) =>
    expect(node.caption && node.querySelector("th[scope=col]"), node, "no caption or column heads"));
  all("section").filter(shown).forEach((node) => expect(named(node), node, "no name"));
  const ids = all("[id]").map((node) => node.id);
  expect(new Set(ids).size === ids.length, document.body, "an id stands twice");
  for (const name of ["for", "aria-labelledby", "aria-describedby", "list"]) {
    all(`[${name}]`).forEach((node) => node.getAttribute(name).split(" ").forEach((id) =>
      expect(document.getElementById(id), node, `${name} names nothing`)));
  }
  let level = 0;
  all("h1, h2, h3, h4").filter((node) => node.checkVisibility()).forEach((node) => {
    expect(Number(node.tagName[1]) <= level + 1, node, "a level of headings is skipped");
    level = Number(node.tagName[1]);
  });
  all("[aria-hidden=true]").forEach((node) =>
    expect(!node.querySelector("a, button, input, select, [tabindex]"), node, "hidden, but reachable"));
  all("button, nav a, input, select").filter(shown).forEach((node) => {
    const { width, height } = node.getBoundingClientRect();
    expect(width >= 24 && height >= 24, node, "smaller than 24 pixels");
  });

  const channels = (text) => (text.match(/[\d.]+/g) ?? []).map(Number);
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((each) => each / 255)
      .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (let each = node; each; each = each.parentElement) {
      const [r, g, b, opacity = 1] = channels(getComputedStyle(each).backgroundColor);
      if (opacity === 1) return [r, g, b];
      if (opacity !== 0) throw new Error(`half a background: ${short(each)}`);
    }
    return [255, 255, 255];
  };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let texts = 0;
  while (walk.nextNode()) {
    const node = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || !shown(node) || node.closest("script, noscript, option, :disabled")) continue;
    texts++;
    const style = getComputedStyle(node);
    const [one, other] = [luminance(channels(style.color).slice(0, 3)), luminance(behind(node))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    expect(ratio >= (large ? 3 : 4.5), node, `contrast ${ratio.toFixed(2)}`);
  }
  expect(texts > 8, document.body, "nearly no text");
  return flaws;
}

/** What has the focus, how its outline is drawn, and whether it can be seen. */
function focused() {
  const node = document.activeElement;
  if (node === document.body) return null;
  const style = getComputedStyle(node);
  const box = node.getBoundingClientRect();
  const all = [...document.querySelectorAll("*")];
  return { at: all.indexOf(node), name: node.outerHTML.slice(0, 90), visible: box.width > 0 && box.height > 0,
    outlined: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 };
}

/** Everything that a pointer can use. */
function usable() {
  return [...document.querySelectorAll("*")].map((node, at) => [node, at])
  .filter(([node]) => node.matches("a[href], button:enabled, input:enabled, select:enabled, summary") &&
    node.checkVisibility({ visibilityProperty: true })).map(([node, at]) => [at, node.outerHTML.slice(0, 90)]);
}
