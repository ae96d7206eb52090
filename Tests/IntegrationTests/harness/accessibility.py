"""Rules of accessibility for a page in its present state: names, roles, references, headings, contrast. Each broken
rule is told in words."""

from __future__ import annotations

from .page import Page

RULES = r"""
const problems = [];
const shown = (element) => element.checkVisibility({checkVisibilityCSS: true});
const say = (rule, element) => problems.push(`${rule}: ${element.outerHTML.slice(0, 160)}`);

if (!document.documentElement.lang) problems.push("the page has no language");
if (!document.title.trim()) problems.push("the page has no title");
const viewport = document.querySelector("meta[name=viewport]")?.content ?? "";
if (/user-scalable\s*=\s*no|maximum-scale/.test(viewport)) problems.push("the page cannot be enlarged");
if (document.querySelectorAll("main").length !== 1) problems.push("there is not one main landmark");
if ([...document.querySelectorAll("h1")].filter(shown).length !== 1) problems.push("there is not one first heading");

const ids = new Set();
for (const element of document.querySelectorAll("[id]")) {
  if (ids.has(element.id)) say("an id twice", element);
  ids.add(element.id);
}
for (const name of ["aria-labelledby", "aria-describedby", "aria-controls", "for"]) {
  for (const element of document.querySelectorAll(`[${name}]`)) {
    for (const id of element.getAttribute(name).split(/\s+/)) if (!ids.has(id)) say(`${name} names nothing`, element);
  }
}
const labelled = (element) => element.getAttribute("aria-label")?.trim()
  || (element.getAttribute("aria-labelledby") ?? "").split(/\s+/).some((id) => document.getElementById(id)?.textContent.trim());
for (const element of document.querySelectorAll("button, a[href]")) {
  if (shown(element) && !element.textContent.trim() && !labelled(element)) say("a button without a name", element);
}
for (const element of document.querySelectorAll("input, select, textarea")) {
  if (shown(element) && ![...(element.labels ?? [])].some((label) => label.textContent.trim()) && !labelled(element)) say("a field without a label", element);
}
for (const element of document.querySelectorAll("video, img, dialog, [role=dialog], section, svg[role=img]")) {
  if (shown(element) && !labelled(element) && !element.getAttribute("alt")) say("without a name", element);
}
for (const element of document.querySelectorAll("[tabindex]")) if (element.tabIndex > 0) say("an order of its own", element);
for (const element of document.querySelectorAll("[aria-hidden=true]")) {
  if (element.querySelector("button, a[href], input, [tabindex]")) say("hidden, and yet to be focused", element);
}
for (const element of document.querySelectorAll("li")) if (!element.closest("ul, ol, menu")) say("an item without a list", element);
for (const element of document.querySelectorAll("[role=listitem]")) if (!element.closest("[role=list]")) say("an item without a list", element);
for (const [name, values] of [["aria-pressed", ["true", "false", "mixed"]], ["aria-expanded", ["true", "false"]], ["aria-hidden", ["true", "false"]]]) {
  for (const element of document.querySelectorAll(`[${name}]`)) if (!values.includes(element.getAttribute(name))) say(`a ${name} that is none`, element);
}
let level = 0;
for (const element of document.querySelectorAll("h1, h2, h3, h4")) {
  if (!shown(element) || element.closest("dialog")) continue;
  const next = Number(element.tagName[1]);
  if (next > level + 1) say("a heading that skips a level", element);
  level = next;
}

// Contrast, by WCAG 2: of each text with the ground that is painted behind it.
const parse = (color) => {
  const [r, g, b, a = 1] = color.match(/[\d.]+/g).map(Number);
  return color.startsWith("color(srgb") ? [r * 255, g * 255, b * 255, a] : [r, g, b, a];
};
const over = ([r, g, b, a], [x, y, z]) => [r * a + x * (1 - a), g * a + y * (1 - a), b * a + z * (1 - a), 1];
const groundOf = (element) => {
  const layers = [];
  for (let each = element; each; each = each.parentElement) {
    const color = parse(getComputedStyle(each).backgroundColor);
    if (color[3] > 0) layers.push(color);
    if (color[3] === 1) break;
  }
  return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255, 1]);
};
const luminance = (color) => {
  const [r, g, b] = color.slice(0, 3).map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const seen = new Set();
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || seen.has(element) || !shown(element) || ["SCRIPT", "NOSCRIPT", "STYLE", "TITLE", "title"].includes(element.tagName)) continue;
  if (element.closest("button:disabled, noscript")) continue;
  seen.add(element);
  const style = getComputedStyle(element);
  const ground = groundOf(element);
  const text = over(parse(element instanceof SVGElement ? style.fill : style.color), ground);
  const [light, dark] = [luminance(text), luminance(ground)].sort((a, b) => b - a);
  const ratio = (light + 0.05) / (dark + 0.05);
  const size = parseFloat(style.fontSize);
  const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
  if (ratio < (isLarge ? 3 : 4.5)) say(`a contrast of ${ratio.toFixed(2)}`, element);
}
// To be hit by a finger: 24 pixels at least (WCAG 2.2, 2.5.8).
for (const element of document.querySelectorAll("button, input")) {
  if (!shown(element)) continue;
  const {width, height} = element.getBoundingClientRect();
  if (width < 24 || height < 24) say(`a target of ${width} × ${height}`, element);
}
if (document.documentElement.scrollWidth > document.documentElement.clientWidth + 1) problems.push("the page is wider than its window");
return problems;
"""
"""A script that returns the broken rules."""


def check_rules(page: Page, where: str) -> None:
    """Checks the page as it is, dark, and narrow."""
    problems = page.js(RULES)
    with page.dark():
        problems += [f"{problem} (dark)" for problem in page.js(RULES)]
    with page.size(320, 640):
        problems += [f"{problem} (narrow)" for problem in page.js(RULES)]
    assert not problems, f"{where}:\n" + "\n".join(problems)
