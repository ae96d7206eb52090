import type { Trace } from "../src/index.js";
import { plain } from "../src/text.js";
import { shorten } from "./dom.js";
import { type Step, seconds, storyOf } from "./story.js";

/*
 * The timeline as a picture. Time runs downward; the service and each user have a vertical line; an arrow shows each
 * message between a user and the service; a text beside the arrow tells the time, the user and the step.
 */

const space = { row: 18, gap: 10, top: 34, left: 6, time: 76, lane: 58, text: 14 };
/** The widest font of the picture: bold, because the texts of problems are bold. */
const font = "600 13px system-ui, sans-serif";
/** The width in pixels below which the picture has no vertical lines. */
const narrow = 620;
const longestLanes = 5;

type Attributes = Record<string, string | number>;

function draw<Name extends keyof SVGElementTagNameMap>(name: Name, attributes: Attributes = {}, text?: string): SVGElementTagNameMap[Name] {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  if (text !== undefined) element.textContent = plain(text);
  return element;
}

export function timelineOf(trace: Trace, width: number): SVGSVGElement {
  const steps = storyOf(trace);
  const users = [...new Set(trace.call.members.map(({ userID }) => userID))].slice(0, longestLanes);
  const hasLanes = width >= narrow;
  const service = space.left + space.time + (hasLanes ? space.lane / 2 : 8);
  const laneOf = (user: string | undefined): number => {
    const index = hasLanes && user !== undefined ? users.indexOf(user) : -1;
    return index < 0 ? service : service + space.lane * (index + 1);
  };
  const words = (hasLanes ? service + space.lane * users.length + space.lane / 2 : service) + space.text;

  const svg = draw("svg", { class: "timeline", role: "group", width });
  const title = draw("title", {}, "Timeline of the call: when, who, and what");
  svg.append(title);
  const lines = draw("g", { "aria-hidden": "true" });
  const list = draw("g", { role: "list" });
  svg.append(lines, list);

  let y = hasLanes ? space.top : space.gap + 8;
  let coordinator = "";
  for (const step of steps) {
    const row = draw("g", { role: "listitem", class: step.isTrouble ? "trouble" : "" });
    row.append(draw("text", { x: space.left + space.time - 12, y, class: "when", "text-anchor": "end" }, seconds(step.at)));
    row.append(mark(step, service, laneOf(step.user), y - 4));
    const said = wrap(sentence(step, step.coordinator !== coordinator), Math.max(120, width - words - 8));
    if (step.coordinator !== "") coordinator = step.coordinator;
    said.forEach((line, index) => row.append(draw("text", { x: words, y: y + index * space.row, class: index === 0 ? "what first" : "what" }, line)));
    list.append(row);
    y += said.length * space.row + space.gap;
  }
  const height = y + space.gap;
  svg.setAttribute("height", String(height));
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const lanes: [string, number][] = [["service", service]];
  if (hasLanes) for (const user of users) lanes.push([user, laneOf(user)]);
  for (const [name, x] of lanes) {
    lines.append(draw("line", { x1: x, x2: x, y1: hasLanes ? 22 : 4, y2: height - 8, class: "lane" }));
    if (hasLanes) lines.append(draw("text", { x, y: 14, class: "head", "text-anchor": "middle" }, shorten(name, 8)));
  }
  return svg;
}

/**
 * Draws an arrow between user and service, or a dot. Problems have a square, so that the color is not the only sign.
 */
function mark({ direction, isTrouble }: Step, service: number, lane: number, y: number): SVGElement {
  const marked = draw("g", { "aria-hidden": "true" });
  const [from, to] = direction === "in" ? [lane, service] : [service, lane];
  if (direction !== "none" && from !== to) {
    const side = to > from ? -1 : 1;
    marked.append(
      draw("line", { x1: from, x2: to + side * 5, y1: y, y2: y, class: "arrow" }),
      draw("path", { d: `M ${to} ${y} l ${side * 8} -4 v 8 z`, class: "point" }),
    );
  }
  const x = direction === "none" ? lane : from;
  marked.append(isTrouble
    ? draw("rect", { x: x - 5, y: y - 5, width: 10, height: 10, class: "point" })
    : draw("circle", { cx: x, cy: y, r: 4, class: "point" }));
  return marked;
}

/** The coordinator is named only when another coordinator wrote the previous step. */
const sentence = ({ who, what, coordinator, isTrouble }: Step, isOther: boolean): string =>
  `${isTrouble ? "! " : ""}${who}: ${what}${isOther && coordinator !== "" ? ` · by ${coordinator}` : ""}`;

let canvas: CanvasRenderingContext2D | null | undefined;

/** Splits a text into lines of at most `width`, because SVG text does not wrap by itself. */
function wrap(text: string, width: number): string[] {
  canvas ??= document.createElement("canvas").getContext("2d");
  if (canvas) canvas.font = font;
  const measure = (line: string) => canvas?.measureText(line).width ?? line.length * 7;
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(/\s+/)) {
    for (const piece of pieces(word, width, measure)) {
      const longer = line === "" ? piece : `${line} ${piece}`;
      if (line === "" || measure(longer) <= width) {
        line = longer;
      } else {
        lines.push(line);
        line = piece;
      }
    }
  }
  return [...lines, line];
}

/** Breaks a word that is wider than a line. */
function pieces(word: string, width: number, measure: (text: string) => number): string[] {
  if (measure(word) <= width) return [word];
  const parts: string[] = [];
  let part = "";
  for (const character of word) {
    if (part !== "" && measure(part + character) > width) {
      parts.push(part);
      part = "";
    }
    part += character;
  }
  return [...parts, part];
}
